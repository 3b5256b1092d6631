"""Checks that the commands, outputs and names in README.md and docs/running.md are right.

usage: readme_test.py BRAID     (from the root of the repository)

A ```console block holds commands, each after "$ ", and what they print; "..." stands for any text
within a line, and for any lines where it is a line of its own. A ```braid block is a text that is
accepted, and part of an example.
"""
import glob
import os
import re
import shlex
import subprocess
import sys
import unittest

PAGES = ["README.md", "docs/running.md"]
BRAID = ""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)


def braid(*arguments, text=None):
    """The exit code, and what the command printed on stdout."""
    done = subprocess.run([BRAID, *arguments], input=text, capture_output=True, text=True,
                          timeout=120)
    return done.returncode, done.stdout


def pattern_of(shown):
    """A regular expression for what a block shows."""
    lines = []
    for line in shown.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(".*".join(map(re.escape, line.split("..."))) + r"\n")
    return "".join(lines)


def shown_commands(page):
    """Each command line with what is shown below it."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def command_lines(page):
    """All lines of code, joined where they go on, that begin with a command of ours."""
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


class Readme(unittest.TestCase):
    def test_commands_print_what_is_shown(self):
        shown = [each for page in PAGES for each in shown_commands(page)]
        self.assertGreaterEqual(len(shown), 3)
        for command, output in shown:
            with self.subTest(command=command):
                words = shlex.split(command)
                self.assertEqual(words[0], "braid")
                code, printed = braid(*words[1:])
                self.assertEqual(code, 0)
                self.assertIsNotNone(re.fullmatch(pattern_of(output), printed),
                                     f"shown:\n{output}\nprinted:\n{printed}")

    def test_texts_are_accepted_and_are_those_of_examples(self):
        texts = [text for page in PAGES for text in blocks(page, "braid")]
        self.assertTrue(texts)
        examples = [read(path) for path in glob.glob("examples/*.braid")]
        for text in texts:
            self.assertEqual(braid("check", "-", text=text)[0], 0)
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
        known = {}
        for command in ("compile", "check", "run", "explain", "env"):
            known[command] = flags_in(help_of(command))
        known["bench"] = flags_in(help_of("bench", "gather-matmul"))
        for page in PAGES:
            for words in words_of(page, "braid"):
                for flag in flags_in(" ".join(words[1:])) - {"--help"}:
                    self.assertIn(flag, known[words[0]], f"{page}: braid {words[0]}")
            # A flag that a sentence names, without its command.
            for span in re.findall(r"`(--[^`]*)`", read(page)):
                for flag in flags_in(span):
                    self.assertIn(flag, set().union(*known.values()), page)

    def test_links_lead_to_files(self):
        for page in PAGES:
            links = re.findall(r"\]\(([^)#]+)", read(page))
            paths = [os.path.join(os.path.dirname(page), link) for link in links
                     if not link.startswith("https://")]
            named = r"(?<![\w./~-])(?:docs|examples|ir|tests|tools)/[\w./-]*\w"
            paths += re.findall(named, re.sub(r"\]\([^)]*\)", "", read(page)))
            for path in paths:
                self.assertTrue(os.path.exists(path), f"{page} links {path}")

    def test_readme_is_short(self):
        self.assertLessEqual(len(read("README.md").split()), 900)
        self.assertLessEqual(len(read("docs/running.md").split()), 1600)


class Patterns(unittest.TestCase):
    """Tests of this test: the parts that "..." leaves out."""

    def test_dots_stand_for_text_and_lines(self):
        shown = "a ... c\n...\nd\n"
        for printed in ("a b c\nd\n", "a  c\nx\ny\nd\n"):
            self.assertIsNotNone(re.fullmatch(pattern_of(shown), printed), printed)
        for printed in ("a b\nd\n", "a b c\nx\n", "a b c\nd\ne\n", "a\nb c\nd\n"):
            self.assertIsNone(re.fullmatch(pattern_of(shown), printed), printed)


if __name__ == "__main__":
    BRAID = os.path.abspath(sys.argv.pop(1))
    unittest.main()
