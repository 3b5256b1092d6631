"""MkDocs hooks for Braid's site. They generate pages and replace links to files outside the site.

The home page is the README. The commands page contains the --help output of each command, which the
executable $BRAID prints. The C and C++ pages contain the public headers.
"""
import glob
import os
import re
import subprocess

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def help_of(*command):
    braid = os.environ.get("BRAID", os.path.join(ROOT, "build", "release", "bin", "braid"))
    try:
        return subprocess.run([braid, *command, "--help"], capture_output=True, text=True,
                              check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise PluginError(f"cannot get the help text of `{braid}`: {error}") from error


def fenced(text, language=""):
    return f"```{language}\n{text.rstrip()}\n```\n"


def commands_page():
    whole = help_of()
    text = "# Commands\n\n" + fenced(whole)
    for name in re.findall(r"^  (\w+) {2,}", whole.split("Subcommands:")[1], re.MULTILINE):
        text += f"\n## braid {name}\n\n" + fenced(help_of(name))
        if name == "bench":
            text += "\n### braid bench OPERATION\n\n" + fenced(help_of(name, "gather-matmul"))
    return text


def headers_page(title, headers):
    text = f"# {title}\n"
    for header in headers:
        text += f"\n## {header}\n\n" + fenced(read(header), "cpp")
    return text


def readme_page():
    """Returns the README with its links rewritten relative to docs/."""
    return re.sub(r"\]\((?!https?:|#)(docs/)?", lambda to: "](" if to[1] else "](../",
                  read("README.md"))


def on_files(files, config):
    cpp = [name for name in sorted(glob.glob("api/*.h", root_dir=ROOT)) if name != "api/c.h"]
    made = {"index.md": readme_page(), "reference/commands.md": commands_page(),
            "reference/cpp.md": headers_page("C++: the public headers", cpp),
            "reference/c.md": headers_page("C: the public header", ["api/c.h"])}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Replaces links to files outside the site with text. Raises PluginError for broken links."""
    folder = os.path.dirname(os.path.join(config["docs_dir"], page.file.src_uri))

    def link(match):
        text, target = match[1], match[2].split("#")[0]
        path = os.path.normpath(os.path.join(folder, target))
        if not target or re.match(r"[a-z]+:", target) or path.startswith(config["docs_dir"] + "/"):
            return match[0]
        if not os.path.exists(path):
            raise PluginError(f"{page.file.src_uri} links to {target}, which does not exist")
        name = os.path.relpath(path, ROOT)
        return f"`{name}`" if text.strip("`") in (name, os.path.basename(name)) \
            else f"{text} (`{name}`)"
    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, markdown)
