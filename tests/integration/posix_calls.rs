//! Calls of POSIX that the random operations do not make: locks, mappings, appends, large directories, set-id bits, long names.

use std::fmt::Write as _;

use forebay_tests::process::{is_root, machine_has};
use forebay_tests::sandbox::{AMPLE, Sandbox, TIGHT};

/// Runs a program of Python in the mount; it ends with an error by an assertion.
fn run(size: forebay_tests::sandbox::Size, options: &[&str], program: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut script = String::new();
    let _ = write!(script, "python3 - <<'end'\n{PRELUDE}\n{program}\nend\n");
    sandbox.run_and_compare(size, options, &script);
    sandbox
}

/// What the programs have in common: the error of a call, and the exit status of a function in a process of its own.
const PRELUDE: &str = "
import errno, fcntl, mmap, os, signal
def error_of(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
def process(work):
    child = os.fork()
    if child == 0:
        status = 99
        try:
            status = work() or 0
        except OSError as error:
            status = error.errno
        finally:
            os._exit(status)
    return child
def status_of(child):
    status = os.waitpid(child, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
";

#[test]
fn locks_hold_between_processes_and_end_with_them() {
    if !machine_has(&["python3"]) {
        return;
    }
    run(
        AMPLE,
        &[],
        "
open('f', 'w').write('x' * 100)
mine = os.open('f', os.O_RDWR)
def take(lock, *arguments):
    def work():
        lock(os.open('f', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, *arguments)
    return status_of(process(work))
for lock, part, other in [(fcntl.flock, (), None), (fcntl.lockf, (10, 20), (10, 60))]:
    lock(mine, fcntl.LOCK_EX, *part)
    assert take(lock, *part) in (errno.EAGAIN, errno.EACCES)
    if other:
        assert take(lock, *other) == 0, 'another range is free'
    lock(mine, fcntl.LOCK_UN, *part)
    assert take(lock, *part) == 0
    assert take(lock, *part) == 0, 'a lock ends with its process'
    # Whoever waits for a lock gets it when its owner dies.
    ready, told = os.pipe()
    def hold():
        lock(os.open('f', os.O_RDWR), fcntl.LOCK_EX, *part)
        os.write(told, b'.')
        signal.pause()
    owner = process(hold)
    os.read(ready, 1)
    assert take(lock, *part) in (errno.EAGAIN, errno.EACCES)
    waiter = process(lambda: lock(os.open('f', os.O_RDWR), fcntl.LOCK_EX, *part))
    os.kill(owner, signal.SIGKILL)
    assert status_of(owner) == -signal.SIGKILL
    assert status_of(waiter) == 0
",
    );
}

#[test]
fn mappings_appends_and_direct_writes() {
    if !machine_has(&["python3"]) {
        return;
    }
    for size in [AMPLE, TIGHT] {
        run(
            size,
            &["--write-back-delay", "0ms"],
            "
open('mapped', 'wb').write(b'a' * 3_000_000)
file = os.open('mapped', os.O_RDWR)
shared = mmap.mmap(file, 3_000_000)
private = mmap.mmap(file, 3_000_000, flags=mmap.MAP_PRIVATE)
for at in range(0, 3_000_000, 4096):
    shared[at] = at // 4096 % 251
private[0:3] = b'ppp'
assert os.pread(file, 2, 4096 * 7) == b'\\x07a'
assert os.pread(file, 3, 0) == b'\\0aa'
os.pwrite(file, b'written', 5_000)
assert shared[5_000:5_007] == b'written' and private[5_000:5_007] == b'written'
shared.flush()
assert all(byte == at % 251 for at, byte in enumerate(open('mapped', 'rb').read()[::4096]))
os.ftruncate(file, 4096)
def touch():
    shared[8192] = 1
assert status_of(process(touch)) == -signal.SIGBUS, 'behind the end there is nothing'

def append(letter):
    def work():
        out = os.open('appended', os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for _ in range(200):
            os.write(out, letter * 1999 + b'\\n')
    return process(work)
assert [status_of(child) for child in [append(letter) for letter in (b'a', b'b', b'c', b'd')]] == [0] * 4
lines = open('appended').read().splitlines()
assert len(lines) == 800 and all(len(line) == 1999 and len(set(line)) == 1 for line in lines)

page = mmap.mmap(-1, 65_536)
page[:] = b'd' * 65_536
direct = os.open('direct', os.O_RDWR | os.O_CREAT | os.O_DIRECT)
assert os.pwritev(direct, [page], 65_536) == 65_536
open('direct', 'r+b').write(b'cached')
page[:] = bytes(65_536)
assert os.preadv(direct, [page], 0) == 65_536 and page[:7] == b'cached\\0'
for flag in (os.O_SYNC, os.O_DSYNC):
    assert os.write(os.open('synced', os.O_WRONLY | os.O_CREAT | flag), b'x') == 1
os.fsync(os.open('.', os.O_RDONLY))
",
        );
    }
}

#[test]
fn a_large_directory_is_listed_while_it_changes() {
    if !machine_has(&["python3"]) {
        return;
    }
    run(
        AMPLE,
        &[],
        "
COUNT = 10_000
os.mkdir('large')
for number in range(COUNT):
    os.close(os.open(f'large/{number:06}', os.O_CREAT | os.O_WRONLY))
changed = set(f'{number:06}' for number in range(0, COUNT, 10))
seen = []
for at, entry in enumerate(os.scandir('large')):
    seen.append(entry.name)
    if at % 10 == 0 and at < COUNT:
        os.unlink(f'large/{at:06}')
        os.close(os.open(f'large/new{at}', os.O_CREAT | os.O_WRONLY))
assert len(seen) == len(set(seen)), 'nothing is listed twice'
assert set(f'{number:06}' for number in range(COUNT)) - changed <= set(seen), 'what stays is listed'
again = sorted(os.listdir('large'))
assert len(again) == COUNT and not changed & set(again), 'the next look sees what is there'
assert all(entry.stat().st_size == 0 for entry in os.scandir('large'))
",
    );
}

#[test]
fn long_names_and_paths_and_the_times_of_directories() {
    if !machine_has(&["python3"]) {
        return;
    }
    run(
        AMPLE,
        &[],
        "
open('n' * 255, 'w').close()
assert error_of(open, 'n' * 256, 'w') == 'ENAMETOOLONG'
at, path = os.open('.', os.O_RDONLY), ''
while len(path) + 201 < 4095:
    os.mkdir('p' * 200, dir_fd=at)
    at = os.open('p' * 200, os.O_RDONLY, dir_fd=at)
    path += 'p' * 200 + '/'
path += 'q' * (4095 - len(path))
open(path, 'w').write('deep')
assert open(path).read() == 'deep' and error_of(os.stat, path + 'q') == 'ENAMETOOLONG'
# What lists the tree afterwards goes by whole paths.
import shutil
shutil.rmtree('p' * 200)

os.mkdir('d')
old = 1_000_000_000
def changes(what, *touched):
    for name in ('d', 'd/f', 'd/g'):
        if os.path.exists(name):
            os.utime(name, ns=(old, old))
    before = {name: os.stat(name).st_ctime_ns for name in touched if os.path.exists(name)}
    what()
    assert all(os.stat(name).st_ctime_ns > before[name] for name in before), (what, touched)
    return os.stat('d').st_mtime_ns != old
assert changes(lambda: open('d/f', 'w').close(), 'd')
assert not changes(lambda: open('d/f', 'w').write('x'), 'd/f')
assert not changes(lambda: os.chmod('d/f', 0o600), 'd/f')
assert changes(lambda: os.link('d/f', 'd/g'), 'd', 'd/f') and os.stat('d/f').st_nlink == 2
assert changes(lambda: os.unlink('d/g'), 'd', 'd/f') and os.stat('d/f').st_nlink == 1
assert changes(lambda: os.rename('d/f', 'd/g'), 'd')
assert changes(lambda: os.mkdir('d/sub'), 'd') and os.stat('d').st_nlink == 3
assert changes(lambda: os.rmdir('d/sub'), 'd') and os.stat('d').st_nlink == 2
os.utime('d/g', ns=(123_456_789_012_345_678, 876_543_210_987_654_321))
assert (os.stat('d/g').st_atime_ns, os.stat('d/g').st_mtime_ns) == (123_456_789_012_345_678, 876_543_210_987_654_321)
",
    );
}

#[test]
fn writes_of_others_take_set_id_bits_before_anybody_runs_the_file() {
    if !machine_has(&["python3"]) {
        return;
    }
    if !is_root() {
        eprintln!("SKIPPED: only root can be two users");
        return;
    }
    run(
        AMPLE,
        &["--allow-other"],
        "
import shutil, stat, subprocess
os.chmod('.', 0o777)
program = shutil.which('id')
def as_nobody(work):
    def child():
        os.setgid(65_534)
        os.setuid(65_534)
        return work()
    return status_of(process(child))
def mode():
    return oct(stat.S_IMODE(os.stat('p').st_mode))
def prepare():
    shutil.copy(program, 'p')
    os.chmod('p', 0o6777)
    os.stat('p')
def overwrite_and_run():
    start = open(program, 'rb').read(100)
    out = os.open('p', os.O_WRONLY)
    os.pwrite(out, start, 0)
    os.close(out)
    return 1 if b'euid=0' in subprocess.run(['./p'], stdout=subprocess.PIPE).stdout else 0
prepare()
assert as_nobody(overwrite_and_run) == 0, 'it was run with the bits that it had before'
assert mode() == '0o777'
for change in (
    lambda: os.truncate('p', 10),
    lambda: os.open('p', os.O_WRONLY | os.O_TRUNC) and None,
    lambda: os.posix_fallocate(os.open('p', os.O_RDWR), 0, 100),
    lambda: os.write(os.open('p', os.O_WRONLY | os.O_APPEND), b'x') and None,
):
    prepare()
    assert as_nobody(change) == 0 and mode() == '0o777', mode()
prepare()
open('p', 'ab').write(b'x')
assert mode() == '0o6777', 'root may'
os.chown('p', 1, 1)
assert mode() == '0o777'
os.chmod('p', 0o2766)
os.chown('p', 2, 2)
assert mode() == '0o2766', 'no program of a group'

os.mkdir('shared')
os.chown('shared', 0, 100)
os.chmod('shared', 0o3777)
def make():
    os.mkdir('shared/d')
    open('shared/f', 'w').close()
assert as_nobody(make) == 0
assert os.stat('shared/f').st_gid == 100 and os.stat('shared/d').st_mode & 0o2000
open('shared/mine', 'w').close()
assert as_nobody(lambda: os.unlink('shared/mine')) == errno.EPERM, 'a sticky directory'
assert as_nobody(lambda: os.unlink('shared/f')) == 0
",
    );
}

/// Where only root can get in the kernel asks, where others can it checks by itself: both give what a plain directory gives.
#[test]
fn access_is_what_it_is_elsewhere() {
    if !machine_has(&["python3"]) {
        return;
    }
    let others: &[&[&str]] = if is_root() { &[&[], &["--allow-other"]] } else { &[&[]] };
    for options in others {
        run(
            AMPLE,
            options,
            "
import subprocess
answers = []
os.mkdir('d', 0o600)
for name, mode in [('plain', 0o644), ('program', 0o755), ('closed', 0o000), ('odd', 0o010)]:
    for place in ['', 'd/']:
        open(place + name, 'w').write('#!/bin/sh\\nexit 7\\n')
        os.chmod(place + name, mode)
for path in ['.', 'd', 'plain', 'program', 'closed', 'odd', 'd/plain', 'd/program', 'missing']:
    answers.append([path] + [os.access(path, how) for how in (os.F_OK, os.R_OK, os.W_OK, os.X_OK)])
    answers.append(error_of(subprocess.call, [os.path.abspath(path)]))
    answers.append(error_of(open, path))
os.chdir('d')
os.chdir('..')
answers.append(error_of(os.chdir, 'plain'))
os.chmod('plain', 0o100)
answers.append([os.access('plain', os.X_OK), subprocess.call([os.path.abspath('plain')])])
os.chmod('plain', 0o644)
answers.append(os.access('plain', os.X_OK))
open('answers', 'w').write(repr(answers))
",
        );
    }
}
