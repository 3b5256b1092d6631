"""Checks that the commands, outputs, texts and names in README.md and docs/ are correct.

usage: docs_test.py BRAID     (from the root of the repository)

The blocks of a page are executed in order, in a folder with links to everything in the repository:

  ```console      commands, each after "$ ", and their output on stdout. If a command ends with
                  `# exits N`, its exit code must be N, and its output includes stderr.
                  "..." stands for any text within a line, or for any lines if it is a whole line.
  ```braid        a file that `braid check` accepts; with title="NAME" it is written to NAME for the
                  commands that use it instead.
"""
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

PAGES = ["README.md"] + sorted(page for page in glob.glob("docs/**/*.md", recursive=True)
                               if not page.startswith("docs/results/"))
# Pages that are generated from the program and its headers when the site is built.
MADE = {f"docs/reference/{name}.md" for name in ("commands", "cpp", "c")}
ROOT = os.getcwd()
BRAID = ""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def blocks(page):
    """Yields language, title and text of each fenced block."""
    for info, text in re.findall(r"^```([^\n]*)\n(.*?)^```$", read(page),
                                 re.MULTILINE | re.DOTALL):
        title = re.search(r'title="([^"]+)"', info)
        yield info.split(" ")[0], title.group(1) if title else "", text


def braid(*arguments, text=None, folder=None, both=False):
    """Runs the command, and returns its exit code and its output on stdout, or on both streams."""
    done = subprocess.run([BRAID, *arguments], input=text, cwd=folder, text=True, timeout=300,
                          stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT if both else subprocess.DEVNULL)
    return done.returncode, done.stdout


def pattern_of(shown):
    """Converts the output shown in a block to a regular expression."""
    lines = []
    for line in shown.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(".*".join(map(re.escape, line.split("..."))) + r"\n")
    return "".join(lines)


def commands_in(block):
    """Yields each command, its exit code or None, and the output shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        command, _, code = line.partition("  # exits ")
        yield command, int(code) if code else None, shown


def command_lines(page):
    """Returns all code lines that begin with a command of this project, joining continuations."""
    text = read(page).replace("\\\n", " ")
    lines = re.findall(r"^(?:    |\$ )(.*)$", text, re.MULTILINE)
    lines += re.findall(r"`([^`\n]+)`", text)
    return [re.sub(r"^mpirun -n \d+ ", "", line).split("#")[0] for line in lines]


def words_of(page, prefix):
    for line in command_lines(page):
        words = line.split()
        if words and words[0] == prefix:
            yield words[1:]


def help_of(*command):
    code, text = braid(*command, "--help")
    assert code == 0, command
    return text


def flags_in(text):
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


class Folder(tempfile.TemporaryDirectory):
    """A temporary folder with links to everything in the repository."""

    def __enter__(self):
        path = super().__enter__()
        for name in os.listdir(ROOT):
            os.symlink(os.path.join(ROOT, name), os.path.join(path, name))
        return path


class Pages(unittest.TestCase):
    def test_blocks_do_what_they_show(self):
        commands = 0
        for page in PAGES:
            with Folder() as folder:
                for language, title, text in blocks(page):
                    if title:
                        with open(os.path.join(folder, title), "w", encoding="utf-8") as file:
                            file.write(text)
                    elif language == "braid":
                        with self.subTest(page=page, text=text):
                            code, said = braid("check", "-", text=text, both=True)
                            self.assertEqual(code, 0, said)
                    elif language == "console":
                        commands += self.run_block(page, text, folder)
        self.assertGreaterEqual(commands, 50)

    def run_block(self, page, block, folder):
        count = 0
        for command, expected, shown in commands_in(block):
            with self.subTest(page=page, command=command):
                words = shlex.split(command)
                self.assertEqual(words[0], "braid")
                code, printed = braid(*words[1:], folder=folder, both=expected is not None)
                self.assertEqual(code, expected or 0, printed)
                self.assertIsNotNone(re.fullmatch(pattern_of(shown), printed),
                                     f"shown:\n{shown}\nprinted:\n{printed}")
            count += 1
        return count

    def test_fusion_of_the_readme_is_an_example(self):
        examples = [read(path) for path in glob.glob("examples/*.braid")]
        texts = [text for language, _, text in blocks("README.md") if language == "braid"]
        self.assertTrue(texts)
        for text in texts:
            self.assertTrue(any(text in example for example in examples), text)

    def test_commands_exist(self):
        known = re.findall(r"^  (\w+) {2,}", help_of().split("Subcommands:")[1], re.MULTILINE)
        developers = read("tools/dev")
        for page in PAGES:
            for words in words_of(page, "braid"):
                if words and words[0].islower() and not words[0].startswith("-"):
                    self.assertIn(words[0], known, page)
            for words in words_of(page, "tools/dev"):
                self.assertRegex(developers, rf"(?m)^  {words[0]} ", page)

    def test_flags_exist(self):
        commands = re.findall(r"^  (\w+) {2,}", help_of().split("Subcommands:")[1], re.MULTILINE)
        known = {command: flags_in(help_of(command)) for command in commands}
        known["bench"] |= flags_in(help_of("bench", "gather-matmul"))
        for page in PAGES:
            for words in words_of(page, "braid"):
                for flag in flags_in(" ".join(words[1:])) - {"--help"}:
                    self.assertIn(flag, known.get(words[0], ()), f"{page}: braid {words[0]}")

    def test_links_lead_to_files(self):
        for page in PAGES:
            links = re.findall(r"\]\(([^)#\s]+)", read(page))
            paths = [os.path.join(os.path.dirname(page), link) for link in links
                     if not link.startswith("https://")]
            named = r"(?<![\w./~-])(?:docs|examples|ir|tests|tools)/[\w./-]*\w"
            paths += re.findall(named, re.sub(r"\]\([^)]*\)", "", read(page)))
            for path in paths:
                if os.path.normpath(path) not in MADE:
                    self.assertTrue(os.path.exists(path), f"{page} links {path}")

    def test_readme_is_short(self):
        self.assertLessEqual(len(read("README.md").split()), 1200)


class Patterns(unittest.TestCase):
    """Tests the "..." patterns of this script."""

    def test_dots_stand_for_text_and_lines(self):
        shown = "a ... c\n...\nd\n"
        for printed in ("a b c\nd\n", "a  c\nx\ny\nd\n"):
            self.assertIsNotNone(re.fullmatch(pattern_of(shown), printed), printed)
        for printed in ("a b\nd\n", "a b c\nx\n", "a b c\nd\ne\n", "a\nb c\nd\n"):
            self.assertIsNone(re.fullmatch(pattern_of(shown), printed), printed)

    def test_exit_codes_are_read(self):
        self.assertEqual(list(commands_in("$ braid a  # exits 3\nx\n$ braid b\ny\n")),
                         [("braid a", 3, "x\n"), ("braid b", None, "y\n")])


if __name__ == "__main__":
    BRAID = os.path.abspath(sys.argv.pop(1))
    unittest.main()
