#!/usr/bin/env python3
"""Runs lit tests: input files whose comments say a command and what its output must hold.

    // RUN: tpuc opt %s --passes=cse
    // CHECK: multiply(%add, %add)
    // CHECK-NEXT: }
    // CHECK-NOT: add.1

CHECK finds its text on the line where the last one matched or later, CHECK-NEXT on the very next
line, CHECK-NOT nowhere between its neighbours. {{...}} is a regular expression, runs of blanks are
equal. `RUN: exit=2 tpuc ...` expects that exit code. Prints `N passed, N failed`.

usage: run.py [--tpuc build/tpuc] [file or directory ...]
"""
import argparse
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def pattern_of(text):
    parts = re.split(r"\{\{(.*?)\}\}", text.strip())
    out = ""
    for n, part in enumerate(parts):
        out += "(?:" + part + ")" if n % 2 else re.escape(re.sub(r"\s+", " ", part))
    return re.compile(out)


def check(directives, output):
    """The first directive that does not hold, as a message, or None."""
    lines = [re.sub(r"\s+", " ", line) for line in output.splitlines()]
    at, column, pending = -1, 0, []  # the line matched last

    def absent(until):
        for number, pattern, text in pending:
            for n in range(at + 1, min(until, len(lines))):
                if pattern.search(lines[n]):
                    return f"line {number}: CHECK-NOT: {text}: found in '{lines[n]}'"
        return None

    for number, kind, text in directives:
        pattern = pattern_of(text)
        if kind == "NOT":
            pending.append((number, pattern, text))
            continue
        if kind == "NEXT":
            candidates = [at + 1] if at + 1 < len(lines) else []
        else:
            candidates = range(max(at, 0), len(lines))
        found = None
        for n in candidates:
            match = pattern.search(lines[n], column if n == at and kind != "NEXT" else 0)
            if match:
                found = (n, match.end())
                break
        if found is None:
            near = lines[at + 1] if at + 1 < len(lines) else "the end of the output"
            return f"line {number}: CHECK{'-NEXT' if kind == 'NEXT' else ''}: {text}: not found; next is '{near}'"
        problem = absent(found[0])
        if problem:
            return problem
        pending = []
        at, column = found
    return absent(len(lines))


def run(path, tpuc):
    text = path.read_text()
    runs = re.findall(r"^// RUN: (.*)$", text, re.M)
    if not runs:
        return "no RUN line"
    for command in runs:
        # Further RUN lines may have their own prefix: `// RUN: tpuc ... ; prefix=SECOND`.
        command, _, prefix = command.partition("; prefix=")
        prefix = prefix.strip() or "CHECK"
        directives = [
            (number, match.group(1) or "", match.group(2))
            for number, line in enumerate(text.splitlines(), 1)
            if (match := re.match(rf"// {prefix}(?:-(NEXT|NOT))?: (.*)$", line))
        ]
        if not directives:
            return f"no {prefix} lines"
        words = command.split()
        expected = 0
        if words[0].startswith("exit="):
            expected, words = int(words[0][5:]), words[1:]
        if words[0] != "tpuc":
            return f"RUN does not run tpuc: {command}"
        words = [str(tpuc)] + [str(path) if w == "%s" else w for w in words[1:]]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        if done.returncode != expected:
            return f"exit code {done.returncode}, expected {expected}\n{done.stderr}"
        problem = check(directives, done.stdout + done.stderr)
        if problem:
            return problem + "\n--- output\n" + done.stdout + done.stderr
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tpuc", default=str(HERE.parent.parent / "build" / "tpuc"))
    parser.add_argument("paths", nargs="*", default=[str(HERE)])
    options = parser.parse_args()
    tpuc = pathlib.Path(options.tpuc).resolve()
    if not tpuc.exists():
        sys.exit(f"{tpuc} is not there: build it, or give --tpuc")
    files = []
    for path in map(pathlib.Path, options.paths):
        files += sorted(path.rglob("*.hlo")) if path.is_dir() else [path]
    failed = 0
    for path in files:
        problem = run(path.resolve(), tpuc)
        if problem:
            failed += 1
            print(f"FAIL {path}\n{problem}")
    print(f"{len(files) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
