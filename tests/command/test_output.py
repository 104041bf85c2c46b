"""Output files of `attune run`: whole or not at all."""

import os
import stat
import subprocess
import threading

from command import BAD_INPUT, COMMAND, NO_DEVICE, CommandTest, Problem, main, parse_npy


class Output(CommandTest):
    def setUp(self):
        super().setUp()
        self.problem = Problem()
        self.words = ["run", "--device", "cpu", *self.problem.files(self)]

    def names(self):
        return sorted(at.name for at in self.folder.iterdir())

    def test_nothing_else_is_left(self):
        before = self.names()
        self.good(*self.words, "--out", self.path("o.npy"), "--lse", self.path("l.npy"))
        self.assertEqual(self.names(), sorted([*before, "o.npy", "l.npy"]))
        mode = stat.S_IMODE(self.path("o.npy").stat().st_mode)
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(mode, 0o666 & ~mask)

    def test_a_file_is_replaced(self):
        self.write("o.npy", b"x" * 100_000)
        self.good(*self.words, "--out", self.path("o.npy"))
        self.load("o.npy", "<f4", self.problem.shapes()[3])

    def test_an_input_may_be_replaced(self):
        self.good(*self.words, "--out", self.path("q.npy"))
        self.load("q.npy", "<f4", self.problem.shapes()[3])

    def test_a_relative_path(self):
        self.good(*self.words, "--out", "o.npy", cwd=self.folder)
        self.load("o.npy", "<f4", self.problem.shapes()[3])

    def test_what_was_there_stays_when_the_run_fails(self):
        self.write("o.npy", b"old")
        before = self.names()
        out = ["--out", self.path("o.npy"), "--lse"]
        self.bad(BAD_INPUT, *self.words, *out, self.path("none/l.npy"), says="none/l.npy")
        self.bad(BAD_INPUT, *self.words, *out, self.folder, says="directory")
        self.bad(BAD_INPUT, *self.words, *out, "", says="cannot be written")
        self.bad(BAD_INPUT, *self.words, *out, self.path("o.npy"), says="same file")
        self.bad(NO_DEVICE, *self.words, *out, self.path("l.npy"), "--device", "nosuch")
        self.bad(BAD_INPUT, *self.words, *out, self.path("l.npy"), "--kernel", "nosuch")
        self.assertEqual((self.path("o.npy").read_bytes(), self.names()), (b"old", before))

    def test_places_that_cannot_be_written(self):
        before = self.names()
        for path in ("", self.folder, self.path("none/o.npy"), self.path("q.npy") / "o.npy"):
            self.bad(BAD_INPUT, *self.words, "--out", path, says="cannot be written")
        self.bad(BAD_INPUT, *self.words, says="--out is needed")
        self.assertEqual(self.names(), before)

    def test_a_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        self.bad(BAD_INPUT, *self.words, "--out", "/dev/full", says="No space left")
        out = ["--out", self.path("o.npy"), "--lse", "/dev/full"]
        self.bad(BAD_INPUT, *self.words, *out, says="/dev/full cannot be written: No space left")
        self.assertFalse(self.path("o.npy").exists())
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))

    def test_a_file_too_large_for_the_system(self):
        """A disk that fills up while a file is written."""
        import resource
        import signal

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (4096, 4096)
            )  # LLVM's OpenMP makes a small one

        words = ["run", "--device", "cpu", *Problem(sq=100).files(self)]
        before = self.names()
        self.bad(BAD_INPUT, *words, "--out", self.path("o.npy"), preexec_fn=limit)
        self.assertEqual(self.names(), before)

    def test_a_folder_that_is_read_only(self):
        def become_nobody():
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)

        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        trial = [COMMAND, "--version"]
        try:
            subprocess.run(trial, preexec_fn=become_nobody, capture_output=True, check=True)
        except (OSError, subprocess.SubprocessError):
            self.skipTest("another user may not run the command here")
        out = ["--out", self.path("o.npy")]
        self.bad(BAD_INPUT, *self.words, *out, says="Permission", preexec_fn=become_nobody)

    def test_a_pipe_is_written_in_place(self):
        os.mkfifo(self.path("pipe"))
        read = []
        reader = threading.Thread(target=lambda: read.append(self.path("pipe").read_bytes()))
        reader.start()
        self.good(*self.words, "--out", self.path("pipe"))
        reader.join()
        self.assertEqual(parse_npy(read[0])[1], self.problem.shapes()[3])
        self.assertTrue(self.path("pipe").is_fifo())


if __name__ == "__main__":
    main()
