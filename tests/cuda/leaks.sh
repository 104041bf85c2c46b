#!/bin/sh
# Runs a program under valgrind, or says that there is none: leaks.sh PROGRAM ARGUMENT...
command -v valgrind >/dev/null || { echo "no valgrind on this machine"; exit 77; }
exec valgrind --leak-check=full --errors-for-leak-kinds=definite,indirect --error-exitcode=1 "$@"
