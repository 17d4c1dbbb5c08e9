"""Writes the first program of a Markdown file to a C++ source file.

The program is the first fenced ``cpp`` block whose first line includes the umbrella header.
Usage: extract_program.py README.md program.cc
"""

import pathlib
import re
import sys

FIRST_LINE = "#include <headwise/headwise.h>"
FENCED_BLOCK = re.compile(r"^```(?:cpp|c\+\+)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def first_program(markdown: str) -> str:
    """The block's text; ValueError says what is wrong with the file."""
    blocks = [match.group(1) for match in FENCED_BLOCK.finditer(markdown)]
    programs = [block for block in blocks if block.lstrip().startswith(FIRST_LINE)]
    if not programs:
        raise ValueError(f"none of its {len(blocks)} C++ blocks begins with {FIRST_LINE}")
    if not re.search(r"\bint\s+main\s*\(", programs[0]):
        raise ValueError("its first program has no main(), so it is not complete")
    return programs[0]


def main() -> int:
    readme, program = (pathlib.Path(argument) for argument in sys.argv[1:3])
    try:
        text = first_program(readme.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"{readme}: {error}", file=sys.stderr)
        return 1
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
