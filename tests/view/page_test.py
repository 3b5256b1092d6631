#!/usr/bin/env python3
"""page_test.py BRAID: tests the pages of `braid view`.

For every input of the fuzzers, the command writes a page or an error message. If Chromium is
installed, a script at the end of a page moves the pointer, zooms and presses keys in a headless
browser, and prints what it observes.
"""
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BRAID = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome")
                if (found := shutil.which(name))), None)

# A script that waits for the first frame and then collects lines.
DRIVER = """
<pre id="seen"></pre><script>
const see = text => { document.getElementById('seen').textContent += text + '\\n'; };
addEventListener('error', event => see('error: ' + event.message));
const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 20)));
const press = (key, target = document.body) => target.dispatchEvent(
  new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
const all = name => [...document.querySelectorAll(name)].map(each => each.dataset.line).join(' ');
const point = (type, element) => element.dispatchEvent(new PointerEvent(type, {bubbles: true}));
(async () => {
  await frame(); await frame();
  DRIVE
  see('end');
})();
</script>
"""


def braid(*arguments, expected=0):
    done = subprocess.run([BRAID, *map(str, arguments)], capture_output=True, timeout=120,
                          check=False)
    if done.returncode != expected:
        raise AssertionError(f"{arguments}: {done.returncode}\n{done.stderr.decode()}")
    return done.stdout.decode()


class Balanced(html.parser.HTMLParser):
    """Checks that all elements are closed in order, and that ids are unique."""
    VOID = {"meta", "input", "br", "img", "link"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids = [], set()
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, attrs)
        for name, value in attrs:
            if name == "id":
                assert value not in self.ids, value
                self.ids.add(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (self.open, tag)
        self.open.pop()


class Pages(unittest.TestCase):
    def test_every_source_gives_a_page_or_a_message(self):
        pages = 0
        for path in sorted((ROOT / "tests" / "fuzz" / "corpus").iterdir()):
            for arguments in ([path], [path, "--check"], ["--trace", path], ["--records", path]):
                done = subprocess.run([BRAID, "view", *map(str, arguments)], capture_output=True,
                                      timeout=120, check=False)
                self.assertIn(done.returncode, (0, 2, 4), (path, arguments, done.stderr))
                self.assertEqual(bool(done.stdout), done.returncode == 0, (path, arguments))
                self.assertEqual(bool(done.stderr), done.returncode != 0, (path, arguments))
                if done.returncode == 0:
                    Balanced(done.stdout.decode())
                    pages += 1
        self.assertGreaterEqual(pages, 5)

    def test_documents_show_what_is_written(self):
        source = ROOT.relative_to(pathlib.Path.cwd()) / "tests" / "tools" / "deadlock.braid"
        self.assertEqual((ROOT / "docs" / "pages" / "deadlock.html").read_text(),
                         braid("view", source, "--check"),
                         f"write docs/pages/deadlock.html again: braid view {source} --check")


@unittest.skipUnless(BROWSER, "no Chromium is installed")
class InBrowser(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def drive(self, page, script, size="1280,900", dark=False):
        """Runs `script` in a page, and returns the lines that it prints. Fails on any error."""
        path = pathlib.Path(self.folder.name) / "page.html"
        driver = DRIVER.replace("DRIVE", script)
        # A headless browser never calls the callbacks of requestAnimationFrame().
        frames = "<script>requestAnimationFrame = then => setTimeout(then, 16);</script>"
        path.write_text(page.replace("<title>", frames + "<title>", 1)
                        .replace("</body>", driver + "</body>"))
        command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
                   f"--window-size={size}", "--virtual-time-budget=20000",
                   f"--user-data-dir={self.folder.name}/profile", "--enable-logging=stderr",
                   "--v=0", path.as_uri()]
        if dark:
            command.insert(1, "--blink-settings=preferredColorScheme=0")
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout.decode(), re.S)
        self.assertTrue(found, done.stderr.decode()[-2000:])
        seen = found.group(1).strip().split("\n")
        self.assertEqual(seen[-1], "end", seen)
        said = [line for line in done.stderr.decode().splitlines()
                if "CONSOLE" in line]
        self.assertEqual(said, [])
        return seen[:-1]

    def page(self, *arguments, expected=0):
        return braid("view", ROOT / "examples" / "ag_matmul.braid", *arguments, expected=expected)

    def test_line_lights_up_its_commands(self):
        seen = self.drive(self.page("--ranks", 4), """
  const lines = [...document.querySelectorAll('#text div')];
  const line = lines.find(each => each.textContent.includes('matmul %out'));
  point('pointerover', line);
  see(all('#text .lit') === line.dataset.line ? 'lit' : 'dark ' + all('.lit'));
  see(document.querySelectorAll('.lane .lit').length);
  line.click();
  press('n');
  see(document.getElementById('told').textContent);
  press('n'); press('p'); press('Escape');
  see('chosen: ' + all('.chosen'));""")
        self.assertEqual(seen[:2], ["lit", "12"], "three blocks of each rank")
        self.assertEqual(seen[2], "matmul %out, %block, %B")
        self.assertRegex(seen[3], r"^GEMM, rank 0, stream\(1\), trip 1")
        self.assertEqual(seen[-1], "chosen: ")

    def test_command_lights_up_its_line(self):
        seen = self.drive(self.page("--ranks", 2), """
  const told = document.getElementById('told');
  const bar = [...document.querySelectorAll('.lane i')].find(each => {
    point('pointerover', each);
    return told.textContent.includes('matmul %out');
  });
  see(document.querySelector('#text .lit').textContent.trim());
  bar.click();
  see(document.querySelector('#text .chosen').textContent.trim());
  press('Escape');
  document.getElementById('board').dispatchEvent(new PointerEvent('pointerleave'));
  see(told.textContent ? 'told still' : 'told no more');
  const widths = new Set([...document.querySelectorAll('.lane i')].map(each => each.offsetWidth));
  see(widths.size > 3 ? 'as wide as they take' : 'all of one width');""")
        for line in seen[:2]:
            self.assertIn("matmul %out, %block, %B", line)
        self.assertEqual(seen[2:], ["told no more", "as wide as they take"])

    def test_keys(self):
        seen = self.drive(self.page("--ranks", 4), """
  const bar = document.querySelector('.lane i'), width = () => bar.getBoundingClientRect().width;
  const whole = width();
  press('+'); see(width() > 1.2 * whole); await frame();
  see(document.querySelector('#axis span').textContent);
  press('0'); see(width() === whole);
  press('c');
  see(document.getElementById('told').textContent ? 'on the path' : 'nowhere');""")
        self.assertEqual([seen[0], *seen[2:]], ["true", "true", "on the path"])
        self.assertRegex(seen[1], r"^[0-9]+")

    def test_counterexample_and_records(self):
        inputs = ROOT / "tests" / "tools"
        page = braid("view", inputs / "deadlock.braid", "--check")
        seen = self.drive(page, """
  see(document.querySelectorAll('#marks li').length);
  document.querySelectorAll('#marks button')[1].click(); await frame();
  see(document.getElementById('told').textContent);""")
        self.assertEqual(seen[0], "2")
        self.assertRegex("\n".join(seen), r"rank 1, main\n.* and never ends")
        records = inputs / "inputs" / "records"
        page = braid("view", "--records", records / "host0.txt")
        seen = self.drive(page, "see(document.getElementById('text').textContent.trim());")
        self.assertIn("set %mine, %own", "\n".join(seen))

    def test_marks_without_a_command_show_their_line(self):
        page = braid("view", ROOT / "tests" / "checker" / "collective_root.braid", "--transport",
                     "messages", "--check")
        seen = self.drive(page, """
  see(document.querySelector('#text .chosen').textContent.trim());
  press('Escape'); await frame();
  document.querySelectorAll('#marks button')[1].click(); await frame();
  see(document.querySelector('#text .chosen').textContent.trim());
  see(document.getElementById('legend').textContent.includes('nothing orders'));""")
        self.assertIn("collective broadcast", seen[0])
        self.assertIn("collective broadcast", seen[1])
        self.assertEqual(seen[2], "false")

    def test_sizes_and_themes(self):
        for ranks in (4, 64):
            page = self.page("--ranks", ranks, "--set", "M=65536", "--schedule",
                             "pairwise;chunks=4")
            for size in ("1280,900", "400,900"):
                for dark in (False, True):
                    seen = self.drive(page, """
  see(document.querySelector('.lane i').offsetHeight > 4 ? 'drawn' : 'empty');
  see(document.documentElement.scrollWidth <= innerWidth ? 'fits' : 'too wide');
  see(matchMedia('(prefers-color-scheme:dark)').matches);""", size, dark)
                    self.assertEqual(seen, ["drawn", "fits", str(dark).lower()], (ranks, size))


if __name__ == "__main__":
    if not BROWSER:
        print("no Chromium is installed: the pages are not driven", file=sys.stderr)
    unittest.main()
