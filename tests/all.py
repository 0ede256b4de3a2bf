#!/usr/bin/env python3
"""Runs every test there is and ends with one line `N passed, N failed`.

  tests/all.py --build build [--sanitized build-asan] [--only NAME]

Unit tests and fuzz corpora are what ctest knows in the build folder; scripted tests are listed below, and each ends with a line
`N passed, N failed`, with lines `FAIL name: why` and `SKIP name: why` before it. A sanitized build runs its unit tests and corpora.
"""
import argparse, json, os, re, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPTS = [
    ('structure', ['tests/structure/run.py']),
    ('errors', ['tests/errors/run.py', '--tpuc', '{tpuc}']),
    ('lit', ['tests/lit/run.py', '--tpuc', '{tpuc}']),
    ('no abort', ['tests/no_abort.py', '--tpuc', '{tpuc}']),
    ('oracle, reference', ['tests/oracle/run.py', '--tpuc', '{tpuc}', '--mode', 'reference']),
    ('oracle, chip numbers', ['tests/oracle/run.py', '--tpuc', '{tpuc}', '--mode', 'chip']),
    ('oracle, bundles', ['tests/oracle/run.py', '--tpuc', '{tpuc}', '--mode', 'interpret']),
    ('oracle, bundles for v5e', ['tests/oracle/run.py', '--tpuc', '{tpuc}', '--mode', 'interpret', '--chip', 'v5e']),
    ('kernels against XLA', ['tests/kernel_oracle.py', '--tpuc', '{tpuc}']),
    ('random programs', ['tests/random_programs.py', '--tpuc', '{tpuc}']),
    ('road', ['tests/road.py', '--tpuc', '{tpuc}']),
    ('loops', ['tests/loops.py', '--tpuc', '{tpuc}']),
    ('attention', ['tests/attention.py', '--tpuc', '{tpuc}']),
    ('readme', ['tests/readme.py', '--tpuc', '{tpuc}']),
    ('chips', ['tests/chips.py', '--tpuc', '{tpuc}']),
    ('sweep', ['tests/sweep.py', '--tpuc', '{tpuc}']),
    ('planted bugs', ['tests/planted/run.py', '--tpuc', '{tpuc}']),
    ('kernels', ['tests/kernels/run.py', '--tpuc', '{tpuc}']),
    ('values of kernels against NumPy', ['tests/kernels/values.py', '--tpuc', '{tpuc}']),
    ('options of kernels against NumPy', ['tests/kernels/options.py', '--tpuc', '{tpuc}']),
    ('examples/jax', ['tests/jax.py', '--tpuc', '{tpuc}']),
    ('trace', ['tests/trace.py', '--tpuc', '{tpuc}']),
    ('golden', ['tests/golden.py', '--tpuc', '{tpuc}']),
]

def run(command, cwd=None):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd, stdin=subprocess.DEVNULL)
    return r.returncode, r.stdout.decode(errors='replace')

def unit_tests(build):
    """(name, command, working folder) of what ctest would run."""
    code, text = run(['ctest', '--show-only=json-v1'], cwd=build)
    if code:
        return [('ctest', ['false'], build)]
    out = []
    for t in json.loads(text)['tests']:
        folder = next((p['value'] for p in t.get('properties', []) if p['name'] == 'WORKING_DIRECTORY'), build)
        out.append((t['name'], t.get('command', ['false']), folder))
    return out

def count_gtest(code, text):
    """(passed, failed, skipped lines) of a GoogleTest program, or of any other by its exit code."""
    m = re.search(r'^\[  PASSED  \] (\d+) tests?\.', text, re.M)
    if not m:
        return (1, 0, []) if code == 0 else (0, 1, [])
    skipped = re.findall(r'^\[  SKIPPED \] (\S+?)(?: \(\d+ ms\))?$', text, re.M)
    failed = re.findall(r'^\[  FAILED  \] (\S+)(?:,.*)? \(\d+ ms\)$', text, re.M)
    return int(m.group(1)), max(len(failed), 0 if code == 0 else 1), sorted(set(skipped))

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', required=True)
    p.add_argument('--sanitized', help='a second build whose unit tests and corpora run too')
    p.add_argument('--sanitized-tests', default='', help='only these of the second build, such as io,isa')
    p.add_argument('--only', default='', help='names that contain this')
    args = p.parse_args()
    jobs = []
    for build in filter(None, (args.build, args.sanitized)):
        build = os.path.abspath(build)
        label = '' if build == os.path.abspath(args.build) else ' (sanitized)'
        wanted = args.sanitized_tests.split(',') if label and args.sanitized_tests else None
        jobs += [(name + label, command, folder, True) for name, command, folder in unit_tests(build) if not wanted or name in wanted]
    tpuc = os.path.abspath(os.path.join(args.build, 'tpuc'))
    for name, command in SCRIPTS:
        jobs.append((name, [sys.executable] + [c.format(tpuc=tpuc) for c in command], ROOT, False))
    passed = failed = 0
    skips = []
    for name, command, folder, unit in jobs:
        if args.only not in name:
            continue
        start = time.time()
        code, text = run(command, cwd=folder)
        if unit:
            ok, bad, skipped = count_gtest(code, text)
            reasons = dict(re.findall(r'^(?:\[ RUN      \] (\S+)\n)(?:.*\n)*?.*: Skipped\n(.*)$', text, re.M))
            skips += [f'{name}: {s}: {reasons.get(s, "see the test")}' for s in skipped]
        else:
            m = re.search(r'(\d+) passed, (\d+) failed\s*$', text)
            ok, bad = (int(m.group(1)), int(m.group(2))) if m else (0, 1)
            if code and not bad:
                bad = 1
            skips += [f'{name}: {s}' for s in re.findall(r'^SKIP (.*)$', text, re.M)]
        print(f'{"ok  " if not bad else "FAIL"} {name}: {ok} passed, {bad} failed ({time.time() - start:.1f} s)', flush=True)
        if bad:
            lines = text.splitlines()
            print('\n'.join('    ' + l for l in (lines if len(lines) < 80 else lines[:40] + ['...'] + lines[-40:])), flush=True)
        passed, failed = passed + ok, failed + bad
    if skips:
        print(f'{len(skips)} skipped:')
        print('\n'.join('    ' + s for s in skips))
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
