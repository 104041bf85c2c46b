# Headers, both libraries, and how CMake and pkg-config find them. The prefix may be moved after the installation.

include(CMakePackageConfigHelpers)

install(DIRECTORY include/attune DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS attune attune_static EXPORT attune)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/attune")
install(EXPORT attune FILE attune-config.cmake NAMESPACE attune:: DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/attune-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/attune-config-version.cmake" DESTINATION "${package_dir}")

file(RELATIVE_PATH prefix_from_pkgconfig "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /prefix)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
list(TRANSFORM static_needs PREPEND -l REGEX "^[^/]" OUTPUT_VARIABLE static_flags)
list(JOIN static_flags " " static_flags)
configure_file(cmake/attune.pc.in attune.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/attune.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
