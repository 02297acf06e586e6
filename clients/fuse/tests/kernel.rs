//! What the kernel makes of system calls, and what we make of what the kernel asks: through real mounts of a server in memory.

mod support;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay_client::{CallPayload, Client, Transport};
use forebay_core::message::{Reply, Request};
use forebay_fuse::MountError;
use parking_lot::{Condvar, Mutex};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags};
use support::{MemoryServer, can_mount, mount, options};

const PATIENCE: Duration = Duration::from_secs(120);

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

#[test]
fn files_directories_and_links() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let mounted = mount(&server, options(dir.path()));
    let path = |name: &str| dir.path().join(name);

    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    fs::write(path("big"), &bytes).unwrap();
    assert!(fs::read(path("big")).unwrap() == bytes);
    let largest = server.take_requests().into_iter().filter_map(|request| match request {
        Request::Write { len, .. } => Some(len),
        _ => None,
    });
    assert_eq!(largest.max(), Some(512 << 10), "writes come in the largest pieces that were agreed");

    fs::create_dir(path("d")).unwrap();
    fs::rename(path("big"), path("d/moved")).unwrap();
    std::os::unix::fs::symlink("moved", path("d/sym")).unwrap();
    fs::hard_link(path("d/moved"), path("d/hard")).unwrap();
    assert_eq!(fs::read_link(path("d/sym")).unwrap(), Path::new("moved"));
    assert_eq!(fs::metadata(path("d/sym")).unwrap().nlink(), 2);
    assert_eq!(fs::remove_dir(path("d")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    assert_eq!(fs::metadata(path("none")).unwrap_err().kind(), ErrorKind::NotFound);

    for i in 0..500 {
        File::create(path(&format!("d/{i:03}"))).unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(path("d")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names.len(), 503, "more than one answer's worth, each once: {names:?}");
    names.dedup();
    assert_eq!(names.len(), 503);

    let stat = rustix::fs::statvfs(dir.path()).unwrap();
    assert_eq!((stat.f_blocks * stat.f_frsize, stat.f_namemax), (1 << 30, 255));
    mounted.unmount().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn opening_flags_reach_the_server() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let _mounted = mount(&server, options(dir.path()));
    let path = dir.path().join("f");

    let mut created = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&path).unwrap();
    created.write_all(b"one").unwrap();
    assert_eq!(OpenOptions::new().write(true).create_new(true).open(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let requests = server.take_requests();
    assert!(requests.iter().any(|r| matches!(r, Request::Create { exclusive: true, mode: 0o640, .. })), "{requests:?}");
    assert!(requests.iter().any(|r| matches!(r, Request::Write { append: false, offset: 0, len: 3, .. })), "{requests:?}");
    assert!(!requests.iter().any(|r| matches!(r, Request::Sync { .. })), "{requests:?}");

    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"two").unwrap();
    let requests = server.take_requests();
    assert!(requests.iter().any(|r| matches!(r, Request::Write { append: true, len: 3, .. })), "{requests:?}");
    assert_eq!(fs::read(&path).unwrap(), b"onetwo");

    for flag in [OFlags::SYNC, OFlags::DSYNC] {
        server.take_requests();
        let mut file = OpenOptions::new().write(true).custom_flags(flag.bits() as i32).open(&path).unwrap();
        file.write_all(b"3").unwrap();
        let requests = server.take_requests();
        let write = requests.iter().position(|r| matches!(r, Request::Write { .. })).unwrap();
        let syncs = requests[write..].iter().filter(|r| matches!(r, Request::Sync { .. })).count();
        assert_eq!(syncs, 1, "before write(2) returns, and once: {requests:?}");
    }
    File::open(&path).unwrap().sync_all().unwrap();
    File::open(dir.path()).unwrap().sync_all().unwrap();
    let syncs = server.take_requests().into_iter().filter(|r| matches!(r, Request::Sync { .. })).count();
    assert_eq!(syncs, 2);

    // Truncation on opening is a change of the size.
    File::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn attributes_times_and_the_umask() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let _mounted = mount(&server, options(dir.path()));
    let path = dir.path().join("f");
    let before = rustix::process::umask(Mode::from_raw_mode(0o027));
    let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o666).open(&path);
    rustix::process::umask(before);
    made.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode(), 0o100_640);

    // Half a second before 1969-12-31 23:59:58, and far in the future.
    for (secs, nanos) in [(-3, 500_000_000), (-1, 0), (0, 1), (4_000_000_000, 999_999_999)] {
        let time = Timespec { tv_sec: secs, tv_nsec: nanos };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (secs, nanos));
        assert_eq!((metadata.atime(), metadata.atime_nsec()), (secs, nanos));
    }

    fs::set_permissions(&path, Permissions::from_mode(0o6755)).unwrap();
    let is_root = rustix::process::getuid().is_root();
    OpenOptions::new().write(true).open(&path).unwrap().write_all(b"x").unwrap();
    let left = if is_root { 0o6755 } else { 0o755 };
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, left, "a write by an ordinary user takes the set-id bits away");
    rustix::fs::mknodat(CWD, dir.path().join("fifo"), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert!(fs::metadata(dir.path().join("fifo")).unwrap().file_type().is_fifo());
}

#[test]
fn renames_with_flags_and_calls_that_are_not_there() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let _mounted = mount(&server, options(dir.path()));
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&a, b"a").unwrap();
    fs::write(&b, b"b").unwrap();
    let no_replace = rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::NOREPLACE);
    assert_eq!(no_replace, Err(rustix::io::Errno::EXIST));
    rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"b".to_vec(), b"a".to_vec()));
    let white_out = rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::WHITEOUT);
    assert!(white_out.is_err());

    let mut value = [0; 8];
    assert_eq!(rustix::fs::getxattr(&a, "trusted.x", &mut value), Err(rustix::io::Errno::OPNOTSUPP));
    assert_eq!(rustix::fs::getxattr(&a, "system.posix_acl_access", &mut value), Err(rustix::io::Errno::OPNOTSUPP));
    let mut file = OpenOptions::new().read(true).write(true).open(&a).unwrap();
    let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(allocated, Err(rustix::io::Errno::OPNOTSUPP));
    file.set_len(10_000).unwrap();
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)), Ok(10_000));
    // std's copy falls back to reading and writing.
    assert_eq!(fs::copy(&a, dir.path().join("c")).unwrap(), 10_000);

    // Locks are the kernel's: they hold between open files of this mount.
    let other = File::open(&a).unwrap();
    file.try_lock().unwrap();
    assert!(other.try_lock().is_err());
    file.unlock().unwrap();
    other.try_lock().unwrap();

    let mut first = [0];
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"b");
}

/// The kernel does not bring what it has kept before it looks for data: a hole of ours may have bytes of its own.
#[test]
fn a_search_passes_over_nothing_that_the_kernel_keeps() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let _mounted = mount(&server, forebay_fuse::MountOptions { kernel_write_back: true, ..options(dir.path()) });
    let file = File::create_new(dir.path().join("f")).unwrap();
    file.set_len(100_000).unwrap();
    file.write_all_at(b"kept", 50_000).unwrap();
    assert!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap() <= 50_000);
    let asked = server.take_requests().iter().any(|r| matches!(r, Request::Seek { .. }));
    assert!(!asked, "we cannot know");
}

#[test]
fn extended_attributes_have_sizes_modes_and_lists() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let _mounted = mount(&server, options(dir.path()));
    let path = dir.path().join("f");
    fs::write(&path, b"x").unwrap();
    let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags);
    set("user.b", b"second", XattrFlags::empty()).unwrap();
    set("user.a", b"", XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.a", b"", XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
    assert_eq!(set("user.c", b"", XattrFlags::REPLACE), Err(rustix::io::Errno::NODATA));
    assert_eq!(set("user.c", &[0; 65_537], XattrFlags::empty()), Err(rustix::io::Errno::TOOBIG));
    let get = |name: &str, value: &mut [u8]| rustix::fs::getxattr(&path, name, value);
    assert_eq!(rustix::fs::getxattr_query(&path, "user.b"), Ok(6));
    assert_eq!(get("user.b", &mut [0; 5]), Err(rustix::io::Errno::RANGE));
    let mut value = [0; 10];
    assert_eq!((get("user.b", &mut value), &value[..6]), (Ok(6), &b"second"[..]));
    assert_eq!(get("user.a", &mut value), Ok(0));
    let mut names = [0; 100];
    assert_eq!(rustix::fs::listxattr_query(&path), Ok(14));
    let len = rustix::fs::listxattr(&path, &mut names).unwrap();
    assert_eq!(&names[..len], b"user.a\0user.b\0");
    assert_eq!(rustix::fs::listxattr(&path, &mut [0; 3]), Err(rustix::io::Errno::RANGE));
    rustix::fs::removexattr(&path, "user.a").unwrap();
    assert_eq!(rustix::fs::removexattr(&path, "user.a"), Err(rustix::io::Errno::NODATA));
}

/// Each write would be two requests if the kernel had to ask for capabilities before it.
#[test]
fn a_write_asks_for_no_extended_attribute() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let _mounted = mount(&server, options(dir.path()));
    let mut file = File::create(dir.path().join("f")).unwrap();
    file.write_all(b"first").unwrap();
    server.take_requests();
    (0..20).for_each(|_| file.write_all(b"more").unwrap());
    let requests = server.take_requests();
    assert!(requests.iter().all(|r| matches!(r, Request::Write { .. })), "{requests:?}");
}

#[test]
fn the_kernel_keeps_names_and_pages_and_gives_its_references_back() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let mounted = mount(&server, options(dir.path()));
    let path = dir.path().join("f");
    fs::write(&path, vec![7; 100_000]).unwrap();
    fs::read(&path).unwrap();
    fs::metadata(dir.path().join("none")).unwrap_err();
    server.take_requests();
    for _ in 0..10 {
        assert_eq!(fs::read(&path).unwrap().len(), 100_000);
        fs::metadata(dir.path().join("none")).unwrap_err();
    }
    let requests = server.take_requests();
    let again = requests.iter().filter(|r| matches!(r, Request::Lookup { .. } | Request::Read { .. })).count();
    assert_eq!(again, 0, "{requests:?}");

    fs::remove_file(&path).unwrap();
    wait_until("the kernel forgets a removed file", || server.references() == 0);
    mounted.unmount().unwrap();
}

#[test]
fn in_write_back_mode_the_kernel_gathers_small_writes() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let mounted = mount(&server, forebay_fuse::MountOptions { kernel_write_back: true, ..options(dir.path()) });
    let file = OpenOptions::new().append(true).create(true).open(dir.path().join("f")).unwrap();
    for i in 0..1000u32 {
        (&file).write_all(&i.to_le_bytes()).unwrap();
    }
    file.sync_all().unwrap();
    let requests = server.take_requests();
    let writes: Vec<_> = requests.iter().filter(|r| matches!(r, Request::Write { .. })).collect();
    assert!(writes.len() < 10, "{} writes", writes.len());
    assert!(writes.iter().all(|r| matches!(r, Request::Write { append: false, .. })), "pages have their own place");
    mounted.unmount().unwrap();
    let mounted = mount(&server, options(dir.path()));
    let mut last = [0; 4];
    File::open(dir.path().join("f")).unwrap().read_exact_at(&mut last, 999 * 4).unwrap();
    assert_eq!(u32::from_le_bytes(last), 999);
    drop(mounted);
}

#[test]
fn a_mount_in_use_is_detached_and_serves_its_users() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let mounted = mount(&server, options(dir.path()));
    fs::write(dir.path().join("f"), b"still here").unwrap();
    let open = File::open(dir.path().join("f")).unwrap();
    mounted.unmount().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let mut bytes = [0; 10];
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still here");

    // Another mount on the same directory is not taken for the old one.
    let second = MemoryServer::new();
    let mounted = mount(&second, options(dir.path()));
    assert!(!mounted.wait_ended(Duration::ZERO));
    drop(open);
    fs::write(dir.path().join("g"), b"g").unwrap();
    mounted.unmount().unwrap();
}

#[test]
fn an_unmount_from_outside_ends_the_mount() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mounted = mount(&MemoryServer::new(), options(dir.path()));
    let status = Command::new("fusermount3").arg("-u").arg(dir.path()).status();
    let Ok(status) = status else {
        eprintln!("SKIPPED: there is no fusermount3");
        return;
    };
    assert!(status.success());
    assert!(mounted.wait_ended(PATIENCE));
    mounted.unmount().unwrap();
}

#[test]
fn bad_mountpoints_are_named() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let try_mount = |path: &Path| forebay_fuse::mount(Client::new(MemoryServer::new()), options(path)).unwrap_err();
    assert!(matches!(try_mount(&file), MountError::NotADirectory { .. }));
    let missing = try_mount(&dir.path().join("missing"));
    assert!(matches!(missing, MountError::Mountpoint { .. }));
    assert!(missing.to_string().contains("missing"), "{missing}");
    assert!(!forebay_fuse::clear_dead_mount(dir.path()).unwrap());
}

/// The other process of the next test: mounts and waits to be killed.
#[test]
fn helper_mounts_and_hangs() {
    let Some(dir) = std::env::var_os("FOREBAY_TEST_HANG_AT") else { return };
    let _mounted = mount(&MemoryServer::new(), options(Path::new(&dir)));
    println!("mounted");
    loop {
        std::thread::park();
    }
}

/// A process that does not outlive a test that fails.
struct KilledAtEnd(std::process::Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_dead_mount_is_recognised_and_cleared() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let device = fs::metadata(dir.path()).unwrap().dev();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "helper_mounts_and_hangs", "--nocapture"]).env("FOREBAY_TEST_HANG_AT", dir.path());
    let mut child = KilledAtEnd(command.stdout(std::process::Stdio::null()).spawn().unwrap());
    wait_until("the other process has mounted", || fs::metadata(dir.path()).is_ok_and(|metadata| metadata.dev() != device));
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    wait_until("the mount is dead", || forebay_fuse::is_dead_mount(dir.path()));
    let error = forebay_fuse::mount(Client::new(MemoryServer::new()), options(dir.path())).unwrap_err();
    assert!(matches!(error, MountError::DeadMount { .. }), "{error}");
    assert!(forebay_fuse::clear_dead_mount(dir.path()).unwrap());
    assert_eq!(fs::metadata(dir.path()).unwrap().dev(), device);
    assert!(!forebay_fuse::is_dead_mount(dir.path()));
}

/// The other process of the next test.
#[test]
fn helper_mounts_as_another_user() {
    let Some(dir) = std::env::var_os("FOREBAY_TEST_MOUNT_AT") else { return };
    let dir = Path::new(&dir);
    let mounted = mount(&MemoryServer::new(), options(dir));
    fs::write(dir.join("f"), b"mine").unwrap();
    assert_eq!(fs::read(dir.join("f")).unwrap(), b"mine");
    assert_eq!(fs::metadata(dir.join("f")).unwrap().uid(), rustix::process::getuid().as_raw());
    fs::set_permissions(dir.join("f"), Permissions::from_mode(0o4755)).unwrap();
    fs::write(dir.join("f"), b"x").unwrap();
    assert_eq!(fs::metadata(dir.join("f")).unwrap().mode() & 0o7777, 0o755, "a write takes the set-user-id bit away");
    fs::set_permissions(dir.join("f"), Permissions::from_mode(0o400)).unwrap();
    assert_eq!(OpenOptions::new().write(true).open(dir.join("f")).unwrap_err().kind(), ErrorKind::PermissionDenied);
    let busy = File::open(dir.join("f")).unwrap();
    mounted.unmount().unwrap();
    drop(busy);
    let open_to_all = forebay_fuse::MountOptions { allow_other: true, ..options(dir) };
    if let Err(error) = forebay_fuse::mount(Client::new(MemoryServer::new()), open_to_all) {
        assert!(matches!(error, MountError::AllowOtherDenied), "{error}");
    }
    println!("all done as user {}", rustix::process::getuid().as_raw());
}

#[test]
fn an_ordinary_user_can_mount() {
    if !can_mount() {
        return;
    }
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir().unwrap();
    let exe = std::env::current_exe().unwrap();
    let mut command = Command::new(&exe);
    command.args(["--exact", "helper_mounts_as_another_user", "--nocapture"]).env("FOREBAY_TEST_MOUNT_AT", dir.path());
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: {} cannot be run as another user: {error}", exe.display());
            return;
        }
    };
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("all done as user"), "{text}");
}

/// A server in which writes wait until they are let go.
struct Waiting {
    server: Arc<MemoryServer>,
    open: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicUsize,
}

impl Transport for Waiting {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        if let Request::Write { .. } = request {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let mut open = self.open.lock();
            self.opened.wait_while(&mut open, |open| !*open);
        }
        self.server.call(request, payload)
    }
}

/// As many writers as the buffers for waiting requests allow for, of which none gets on: everything else is served.
#[test]
fn writers_that_wait_keep_nobody_else_waiting() {
    if !can_mount() {
        return;
    }
    const WRITERS: usize = 40;
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let waiting =
        Arc::new(Waiting { server: server.clone(), open: Mutex::new(false), opened: Condvar::new(), waiting: AtomicUsize::new(0) });
    let few_threads = forebay_fuse::MountOptions { threads: 2, ..options(dir.path()) };
    let mounted = forebay_fuse::mount(Client::new(waiting.clone()), few_threads).unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("d")).unwrap();
    std::thread::scope(|scope| {
        for i in 0..WRITERS {
            let path = path(&format!("f{i}"));
            scope.spawn(move || fs::write(path, vec![i as u8; 1 << 20]).unwrap());
        }
        // If this fails nothing would ever let the writers go; so it does not panic before they are.
        let deadline = Instant::now() + PATIENCE;
        while waiting.waiting.load(Ordering::SeqCst) < WRITERS && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let all_wait = waiting.waiting.load(Ordering::SeqCst) == WRITERS;
        let (done, served) = std::sync::mpsc::channel();
        let other = path("d/sub");
        scope.spawn(move || {
            let made = fs::create_dir(&other).and_then(|()| fs::metadata(&other)).and_then(|_| fs::read_dir(other.parent().unwrap()));
            let removed = made.and_then(|_| fs::remove_dir(&other));
            let _ = done.send(removed.map_err(|error| error.to_string()));
        });
        let others = served.recv_timeout(PATIENCE);
        *waiting.open.lock() = true;
        waiting.opened.notify_all();
        assert!(all_wait, "only {} writes have reached the server", waiting.waiting.load(Ordering::SeqCst));
        assert_eq!(others, Ok(Ok(())), "a directory is made, looked at and removed beside {WRITERS} writes that wait");
    });
    for i in 0..WRITERS {
        assert!(fs::read(path(&format!("f{i}"))).unwrap() == vec![i as u8; 1 << 20]);
    }
    mounted.unmount().unwrap();
}

/// A directory larger than one answer, with attributes: what `ls -l` sees needs no request for each name.
#[test]
fn a_listing_brings_attributes_along() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let filled = mount(&server, options(dir.path()));
    for i in 0..300 {
        fs::write(dir.path().join(format!("file-{i:03}")), vec![0; i]).unwrap();
    }
    filled.unmount().unwrap();
    let mounted = mount(&server, options(dir.path()));
    server.take_requests();
    let mut sizes: Vec<u64> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, (0..300).collect::<Vec<u64>>());
    let requests = server.take_requests();
    let asked = requests.iter().filter(|request| matches!(request, Request::GetAttr { .. })).count();
    assert!(asked < 10, "{asked} requests for attributes");
    let looked_up = requests.iter().filter(|request| matches!(request, Request::Lookup { .. })).count();
    assert!(looked_up <= 310, "{looked_up} lookups of 300 names");
    mounted.unmount().unwrap();
}

/// The server has open what the kernel knows: neither open(2) nor close(2) asks anything, and what is removed while it is open stays whole.
#[test]
fn opening_and_closing_cost_no_requests() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = MemoryServer::new();
    let mounted = mount(&server, options(dir.path()));
    let path = dir.path().join("f");
    fs::write(&path, b"bytes").unwrap();
    fs::write(dir.path().join("first"), b"the kernel asks once whether it has to ask").unwrap();
    drop(File::open(&path).unwrap());
    server.take_requests();
    for _ in 0..20 {
        drop(OpenOptions::new().read(true).write(true).open(&path).unwrap());
    }
    assert_eq!(server.take_requests(), []);

    File::create_new(dir.path().join("g")).unwrap();
    let requests = server.take_requests();
    let only_made = [matches!(requests.first(), Some(Request::Lookup { .. })), matches!(requests.last(), Some(Request::Create { .. }))];
    assert!(requests.len() == 2 && only_made == [true, true], "{requests:?}");

    let open = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::remove_file(dir.path().join("g")).unwrap();
    open.write_all_at(b"still", 5).unwrap();
    assert_eq!(open.metadata().unwrap().len(), 10);
    let closes = std::cell::Cell::new(0);
    let count = || {
        let closed = server.take_requests().into_iter().filter(|request| matches!(request, Request::Release { .. }));
        closes.set(closes.get() + closed.count());
        closes.get()
    };
    wait_until("the server closes what was not open", || count() == 1);
    drop(open);
    wait_until("the server closes the other, too", || count() == 2);
    mounted.unmount().unwrap();
}
