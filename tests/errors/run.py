#!/usr/bin/env python3
"""One failing command per diagnostic of the command line, files and arrays: exit code and message.

  tests/errors/run.py --tpuc build/tpuc [--only NAME]

A case is a name, arguments (split at spaces; {d} is a folder with the files of FILES), the exit code and what standard error must hold.
Cases of other rooms are files beside this one: <name>.hlo or <name>.tk, whose first lines say

  // RUN: run --reference        the arguments before the file; compile where there is no such line
  // EXIT: 1
  // ERROR: E0104                a text that standard error must hold; several lines, all must
"""
import argparse, os, re, struct, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ADD = '''HloModule add
ENTRY e {
  a = f32[2]{0} parameter(0)
  b = s32[2]{0} parameter(1)
  c = f32[2]{0} convert(b)
  ROOT r = f32[2]{0} add(a, c)
}
'''

def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header + data

def kernel_call(config, shape='f32[8,128]'):
    return (f'HloModule k\nENTRY e {{\n  x = {shape} parameter(0)\n  ROOT r = {shape} custom-call(x), '
            f'custom_call_target="tpuc.kernel"{config}\n}}\n').encode()

COPY_TK = b'''kernel k {
  param n = 8;
  in x: f32[n,128];
  out o: f32[n,128];
  o[:] = x[:];
}
'''
LONG = 100_000_000
FILES = {
    'add.hlo': ADD.encode(),
    'huge.hlo': b'HloModule h\nENTRY e {\n  ROOT a = f32[1000000,1000000]{1,0} parameter(0)\n}\n',
    'two.hlo': (ADD + '// -----\n' + ADD).encode(),
    'elided.hlo': b'HloModule l\nENTRY e {\n  a = s32[3] constant({...})\n  b = s32[3] constant({...})\n'
                  b'  ROOT t = (s32[3], s32[3]) tuple(a, b)\n}\n',
    'bad.hlo': b'HloModule bad\nENTRY e {\n  ROOT a = f32[2] parameter(0\n}\n',
    'f32.npy': npy('<f4', '(2,)', struct.pack('<2f', 1, 2)),
    'f32b.npy': npy('<f4', '(2,)', struct.pack('<2f', 1, 3)),
    's32.npy': npy('<i4', '(2,)', struct.pack('<2i', 1, 2)),
    'i64.npy': npy('<i8', '(2,)', struct.pack('<2q', 1, 2)),
    'three.npy': npy('<f4', '(3,)', struct.pack('<3f', 1, 2, 3)),
    'short.npy': npy('<f4', '(2,)', b'1234'),
    'object.npy': npy('|O', '(2,)', b'12345678'),
    'damaged.npz': b'PK\x03\x04 and no directory',
    'shapes.hlo': b'HloModule s\nENTRY e {\n  a = f32[2] parameter(0)\n  ROOT r = f32[3] negate(a)\n}\n',
    'text.txt': b'one\ntwo\n',
    'text2.txt': b'one\nthree\n',
    # Lines of 100 MB: a name, a number, a comment before a mistake, of each text format.
    'name.hlo': b'HloModule m ENTRY e { ROOT c = f32[] negate(' + b'x' * LONG + b') }',
    'number.hlo': b'HloModule m ENTRY e { ROOT c = f32[] constant(' + b'1' * LONG + b') }',
    'comment.hlo': b'HloModule m /*' + b'-' * LONG + b'*/ ENTRY e { ROOT c = f32[] negate(x) }',
    'name.tk': b'kernel ' + b'k' * LONG + b' {',
    'bundles.txt': b'tpuc.bundles 1 ' + b'b' * LONG,
    'copy.tk': COPY_TK,
    'two.tk': COPY_TK + COPY_TK.replace(b'kernel k', b'kernel l') + b'''program p {
  buffer x: f32[8,128];
  buffer t: f32[8,128];
  buffer o: f32[8,128];
  input x in x;
  output o in o;
  call k(x, t);
  call l(t, o);
}
''',
    'call.hlo': kernel_call(', backend_config={"file":"copy.tk"}'),
    'call16.hlo': kernel_call(', backend_config={"file":"copy.tk","set":{"n":16}}', 'f32[16,128]'),
    'call_bare.hlo': kernel_call(''),
    'call_none.hlo': kernel_call(', backend_config={"file":"none.tk"}'),
    'call_param.hlo': kernel_call(', backend_config={"file":"copy.tk","set":{"m":1}}'),
    'call_float.hlo': kernel_call(', backend_config={"file":"copy.tk","set":{"n":1.5}}'),
    'call_shape.hlo': kernel_call(', backend_config={"file":"copy.tk","set":{"n":16}}'),
    'call_two.hlo': kernel_call(', backend_config={"file":"two.tk"}'),
    'x.chip': b'[machine]\nclock = fast\n',
}

CASES = [
    ('no arguments', '', 2, ['usage: tpuc']),
    ('command mistyped', 'rnu', 2, ["E0400", "did you mean 'tpuc run'?"]),
    ('file missing', '{d}/none.hlo', 1, ['E0300', 'none.hlo']),
    ('file is a folder', 'opt --passes= {d}', 1, ['E0300']),
    ('option unknown', 'run {d}/add.hlo --chp v6e', 2, ['E0400', "unknown option '--chp'", "did you mean '--chip'?"]),
    ('option without value', 'run {d}/add.hlo --seed', 2, ['E0400']),
    ('empty value', 'run {d}/add.hlo --output=', 2, ['E0400', 'empty value']),
    ('seed no number', 'run {d}/add.hlo --seed x', 2, ['E0400']),
    ('chip unknown', 'run {d}/add.hlo --chip v6', 2, ['E0401', "did you mean 'v6e'?"]),
    ('chip file missing', 'run {d}/add.hlo --chip {d}/none.chip', 1, ['E0300']),
    ('chip file wrong', 'run {d}/add.hlo --chip {d}/x.chip', 1, ['x.chip:2']),
    ('pass unknown', 'opt {d}/add.hlo --passes=simplfy', 2, ['E0401', "did you mean 'simplify'?"]),
    ('pass unknown, disabled', 'opt {d}/add.hlo --xla_disable_hlo_passes=dec', 2, ['E0401', "did you mean 'dce'?"]),
    ('table unknown', 'list chip', 2, ['E0401', "did you mean 'chips'?"]),
    ('diagnostic unknown', 'explain E0401x', 2, ['E0401']),
    ('level unknown', 'run {d}/add.hlo -O3', 2, ['E0400']),
    ('elided constants, word', 'run --elided-constants=zero {d}/elided.hlo', 2, ['E0400', '--elided-constants']),
    ('elided constants', 'run {d}/elided.hlo', 1, ['E0201', '--elided-constants=xla']),
    ('elided constants, sweep', 'sweep {d}/elided.hlo --elided-constants=xla', 0, ['2 elided constants', 'W0201']),
    ('steps without --reference', 'run --max-steps 9 {d}/add.hlo', 2, ['E0400', '--max-cycles']),
    ('numbers unknown', 'run --reference --numbers=f64 {d}/add.hlo', 2, ['E0400']),
    ('setting without value', 'run {d}/add.hlo --set a', 2, ['E0400', "--set takes name=number, name=type or name=file.npy, not 'a'"]),
    ('sweep axis', 'sweep {d}/add.hlo --set a=1..x', 2, ['E0400', "'1..x' of a is neither a value nor a range"]),
    ('sweep shard', 'sweep {d}/add.hlo --shard 2/2', 2, ['E0400', '--shard takes i/n']),
    ('regular expression', 'opt {d}/add.hlo --xla_dump_hlo_pass_re=( --dump-to {d}/dump', 2, ['E0400', 'missing ): (']),
    ('kernel call', 'run {d}/call.hlo --check', 0, ['check: ok']),
    ('kernel call with a parameter', 'run {d}/call16.hlo --check --verify-each', 0, ['check: ok']),
    ('kernel call, no config', 'run {d}/call_bare.hlo', 1, ['call_bare.hlo:4:', 'E0105', 'names no kernel file']),
    ('kernel call, no file', 'run --reference {d}/call_none.hlo', 1, ['E0300', 'call_none.hlo:4:', 'E0105']),
    ('kernel call, no parameter', 'run {d}/call_param.hlo', 1, ['no parameter is called m', 'E0503']),
    ('kernel call, no integer', 'run {d}/call_float.hlo', 1, ['parameter n does not take a word', 'E0503']),
    ('kernel call, shapes', '{d}/call_shape.hlo', 1, ['operand 0 is f32[8,128], x of k is f32[16,128]', 'result 0', 'E0105']),
    ('kernel call, two steps', '{d}/call_two.hlo', 1, ['a program of 2 steps', 'E0105']),
    ('report', 'report {d}/add.hlo', 2, ['E0402', "'tpuc report' is not built yet"]),
    ('interpret and reference', 'run --interpret --reference {d}/add.hlo', 2, ['E0400', 'exclude each other']),
    ('output over program', 'run --reference {d}/add.hlo --output {d}/add.hlo', 2, ['E0403', 'would overwrite']),
    ('output over input', 'run --reference {d}/add.hlo --input {d}/f32.npy --output {d}/f32.npy', 2, ['E0403']),
    ('bundles over program', '{d}/add.hlo -o {d}/add.hlo', 2, ['E0403']),
    ('output folder missing', 'opt --passes= {d}/add.hlo -o {d}/none/x.hlo', 1, ['E0301']),
    ('two results in one .npy', 'run --reference {d}/two.hlo', 1, ['E0305', '2 modules']),
    ('syntax', 'opt --passes= {d}/bad.hlo', 1, ['bad.hlo:4:1: error: ', '[E0001]', '^']),
    ('rule of HLO', 'opt --passes=dce {d}/shapes.hlo', 1, ['shapes.hlo:4:8: error: ', '[E0103]']),
    ('rule of HLO, printing', 'opt --passes= {d}/shapes.hlo', 0, ['shapes.hlo:4:8: warning: ', 'passes and runs refuse it [E0103] [W0100]']),
    ('long name', 'opt --passes= {d}/name.hlo', 1, ['E0007']),
    ('long number', 'opt --passes= {d}/number.hlo', 1, ['E0']),
    ('long comment', 'opt --passes= {d}/comment.hlo', 1, ['E0007']),
    ('long name of a kernel', 'run {d}/name.tk', 1, ['E0']),
    ('long header of bundles', 'run {d}/bundles.txt', 1, ['E0']),
    ('syntax as json', 'opt --passes= --diagnostics=json {d}/bad.hlo', 1, ['"code":"E0001"', '"line":4']),
    ('input type', 'run --reference {d}/add.hlo --input {d}/s32.npy', 1,
     ["s32.npy: error: parameter 0 ('a'): the array is int32[2]; f32[2] is read from float32 [E0102]"]),
    ('input width', 'run --reference {d}/add.hlo --input {d}/f32.npy --input {d}/i64.npy', 1,
     ["parameter 1 ('b'): the array is int64[2]; s32[2] is read from int32 [E0102]"]),
    ('input shape', 'run --reference {d}/add.hlo --input {d}/three.npy', 1,
     ['the array is float32[3], the program wants f32[2] [E0102]']),
    ('too many inputs', 'run --reference {d}/add.hlo --input {d}/f32.npy --input {d}/s32.npy --input {d}/f32.npy', 1,
     ['E0102', 'there is no parameter 2: the program has 2']),
    ('input missing', 'run --reference {d}/add.hlo --input {d}/none.npz', 1, ['E0300']),
    ('input short', 'run --reference {d}/add.hlo --input {d}/short.npy', 1, ['E0302', 'needs 8 bytes of data, the file has 4']),
    ('input of objects', 'run --reference {d}/add.hlo --input {d}/object.npy', 1, ['E0303', "type '|O'"]),
    ('input archive damaged', 'run --reference {d}/add.hlo --input {d}/damaged.npz', 1, ['E0302', 'no zip directory']),
    ('input no array', 'run --reference {d}/add.hlo --input {d}/text.txt', 1, ['E0302', 'not a .npy array']),
    ('too large', 'run --reference {d}/huge.hlo', 1, ['E0304', 'MiB']),
    ('compiled already', '{d}/add.hlo --json -o -', 2, ['E0400', 'standard output']),
]
# What standard output must hold instead.
STDOUT = [
    ('version', '--version', 0, ['tpuc ']),
    ('help', '--help', 0, ['usage: tpuc', 'explain']),
    ('explain', 'explain e0102', 0, ['E0102: wrong program input']),
    ('list diags', 'list diags', 0, ['E0400', 'wrong use of the command']),
    ('list chips', 'list chips', 0, ['v6e']),
    ('list as json', 'list passes --json', 0, ['"schema": "tpuc.list/1"', 'simplify']),
    ('opt of two modules', 'opt --passes= {d}/two.hlo', 0, ['// -----']),
    ('diff equal', 'diff {d}/f32.npy {d}/f32.npy', 0, ['equal']),
    ('diff arrays', 'diff {d}/f32.npy {d}/f32b.npy', 3, ['DIFFERENT', 'different 1', 'got 3, expected 2 at [1]']),
    ('diff within rtol', 'diff {d}/f32.npy {d}/f32b.npy --rtol 0.5', 0, ['equal']),
    ('diff shapes', 'diff {d}/f32.npy {d}/three.npy', 3, ['float32[2] against float32[3]']),
    ('diff texts', 'diff {d}/text.txt {d}/text2.txt', 3, ['DIFFERENT from line 2', '- two', '+ three']),
    ('diff same text', 'diff {d}/text.txt {d}/text.txt', 0, ['equal: 2 lines']),
    ('elided constants, reference', 'run --reference --elided-constants=xla {d}/elided.hlo', 0, ['out0 = s32[3] {0, 1, 2}', 'out1 = s32[3] {3, 4, 5}']),
    ('elided constants, bundles', 'run --elided-constants=xla {d}/elided.hlo', 0, ['out0 = s32[3] {0, 1, 2}', 'out1 = s32[3] {3, 4, 5}']),
    ('elided constants, printed', 'opt --passes= --elided-constants=xla {d}/elided.hlo', 0, ['constant({0, 1, 2})', 'constant({3, 4, 5})']),
    ('elided constants, statistics', 'run --elided-constants=xla --json {d}/elided.hlo', 0, ['--elided-constants=xla"']),
    ('elided constants, sweep lines', 'sweep {d}/elided.hlo --elided-constants=xla', 0, ['"cycles"', '"elided_constants":"xla"']),
    ('run prints results', 'run --reference {d}/add.hlo --input {d}/f32.npy --input {d}/s32.npy', 0, ['out0 = f32[2] {2, 4}']),
]

def file_case(path):
    """A case of a file beside this one."""
    text = open(path, errors='replace').read()
    field = lambda name: re.findall(rf'^\s*(?://|#) {name}: (.*)$', text, re.M)
    args = (field('RUN') or [''])[0].split() + [path]
    return args, int((field('EXIT') or ['1'])[0]), field('ERROR')

def run(tpuc, args, code, expected, stream):
    r = subprocess.run([tpuc, *args], capture_output=True, text=True, errors='replace', timeout=60, stdin=subprocess.DEVNULL)
    shown = r.stderr if stream == 'err' else r.stdout
    if r.returncode != code:
        return f'exit {r.returncode}, expected {code}: {r.stderr[:300]}'
    if len(shown) > 20_000:
        return f'a message of {len(shown)} characters'
    for e in expected:
        if e not in shown:
            return f'no {e!r} in {shown[:300]!r}'
    if not expected:
        return 'the case expects no message'
    return None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    p.add_argument('--only', default='')
    args = p.parse_args()
    tpuc = os.path.abspath(args.tpuc)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        for name, data in FILES.items():
            with open(os.path.join(tmp, name), 'wb') as f:
                f.write(data)
        jobs = [(n, [w.format(d=tmp) for w in a.split()], c, e, 'err') for n, a, c, e in CASES]
        jobs += [(n, [w.format(d=tmp) for w in a.split()], c, e, 'out') for n, a, c, e in STDOUT]
        for name in sorted(os.listdir(HERE)):
            if name.endswith(('.hlo', '.tk', '.txt')):
                jobs.append((name, *file_case(os.path.join(HERE, name)), 'err'))
        for name, command, code, expected, stream in jobs:
            if args.only not in name:
                continue
            try:
                problem = run(tpuc, command, code, expected, stream)
            except subprocess.TimeoutExpired:
                problem = 'no answer in 60 s'
            if problem:
                print(f'FAIL {name}: {problem}')
            passed, failed = passed + (not problem), failed + bool(problem)
        for name, data in FILES.items():
            if open(os.path.join(tmp, name), 'rb').read() != data:
                print(f'FAIL {name}: a command has changed its input')
                failed += 1
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
