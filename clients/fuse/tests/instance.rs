//! A whole server behind a real mount.

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use forebay_client::Client;
use forebay_core::config::NodeConfig;
use forebay_fuse::MountOptions;
use forebay_server::{Instance, Options};
use support::{can_mount, options};

/// 32 segments of 256 KiB, eight of them in memory.
fn small() -> NodeConfig {
    NodeConfig {
        chunk_bytes: 64 << 10,
        segment_bytes: 256 << 10,
        segments_max: 32,
        memory_segments_max: 8,
        write_back_delay_ns: 20_000_000,
        retry_delay_ns: 10_000_000,
        ..NodeConfig::default()
    }
}

fn start(dir: &Path) -> Arc<Instance> {
    for name in ["home", "memory", "mount"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    let options = Options {
        node: small(),
        buffer: dir.join("buffer"),
        backing: dir.join("home"),
        memory_dir: Some(dir.join("memory")),
        record: None,
        home_threads: 4,
    };
    Instance::start(options).unwrap()
}

fn run(directory: &Path, script: &str) -> String {
    let output = Command::new("sh").arg("-ec").arg(script).current_dir(directory).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}: {text}");
    text
}

/// What `find` says of every object: type, mode, owner, size of files, time, target, and the number of names of files.
fn listing(directory: &Path) -> String {
    run(
        directory,
        "find . -mindepth 1 \\( -type d -printf '%p %y %m %U %G %T@\\n' -o -type f -printf '%p %y %m %U %G %s %T@ %n\\n' \
         -o -printf '%p %y %m %l\\n' \\) | sort; find . -type f -exec cksum {} + | sort -k3",
    )
}

const SCRIPT: &str = "
    mkdir -p src/deep build
    for i in 1 2 3 4 5 6 7 8; do seq 1 5000 > src/file$i; done
    cp -r src src2; cp -p src/file1 copy; ln src/file2 hard; ln -s ../file3 src/deep/sym
    mv src2 build/moved; rm build/moved/file4; mv src/file5 src/file6
    cat src/file1 src/file2 >> src/file3
    dd if=/dev/zero of=sparse bs=1 count=1 seek=3000000 2>/dev/null
    truncate -s 1234 src/file7; chmod 600 src/file1; chmod 750 src; touch -d '1969-07-20 20:17:40.5' src/file2
    mkfifo fifo; mkdir gone; rmdir gone; tar cf all.tar src build; mkdir out; tar xf all.tar -C out
    sort -r src/file3 > sorted; sed -i s/1/x/ sorted
";

#[test]
fn shell_tools_leave_at_home_what_they_see() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let instance = start(dir.path());
    let mount = dir.path().join("mount");
    let mounted = forebay_fuse::mount(Client::new(instance.clone()), options(&mount)).unwrap();
    run(&mount, SCRIPT);
    let seen = listing(&mount);
    assert_eq!(instance.drain(), []);
    assert_eq!(listing(&mount), seen, "a drain changes nothing that is seen");
    assert_eq!(listing(&dir.path().join("home")), seen);

    // The same on the bare directory.
    let bare = dir.path().join("bare");
    fs::create_dir(&bare).unwrap();
    run(&bare, SCRIPT);
    let without_times = |text: &str| -> Vec<String> {
        let fields =
            |line: &str| line.split(' ').filter(|field| !field.contains('.') || field.starts_with("./")).collect::<Vec<_>>().join(" ");
        text.lines().filter(|line| !line.contains(".tar")).map(fields).collect()
    };
    assert_eq!(without_times(&listing(&bare)), without_times(&seen));
    mounted.unmount().unwrap();
    instance.shutdown();
    instance.remove_buffer().unwrap();
}

#[test]
fn many_threads_write_more_than_the_buffer_holds() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let instance = start(dir.path());
    let mount = dir.path().join("mount");
    let mounted = forebay_fuse::mount(Client::new(instance.clone()), MountOptions { threads: 8, ..options(&mount) }).unwrap();
    const PART: usize = 64 << 10;
    const PARTS: usize = 100;
    let shared = OpenOptions::new().read(true).write(true).create_new(true).open(mount.join("shared")).unwrap();
    let part = |t: usize, i: usize| vec![(t * 31 + i * 7 + 1) as u8; PART];
    thread::scope(|scope| {
        for t in 0..4 {
            let (shared, mount) = (&shared, &mount);
            scope.spawn(move || {
                let mut own = File::create_new(mount.join(format!("own{t}"))).unwrap();
                for i in 0..PARTS {
                    // Strided into the shared file, one after the other into its own.
                    shared.write_all_at(&part(t, i), ((i * 4 + t) * PART) as u64).unwrap();
                    own.write_all(&part(t, i)).unwrap();
                }
                own.sync_all().unwrap();
                let mut bytes = Vec::new();
                File::open(mount.join(format!("own{t}"))).unwrap().read_to_end(&mut bytes).unwrap();
                assert!((0..PARTS).all(|i| bytes[i * PART..][..PART] == part(t, i)));
            });
        }
    });
    assert!(instance.status().counters.swaps > 0, "{:?}", instance.status());
    drop(shared);
    mounted.unmount().unwrap();
    assert_eq!(instance.drain(), []);
    let bytes = fs::read(dir.path().join("home/shared")).unwrap();
    assert!((0..4).all(|t| (0..PARTS).all(|i| bytes[(i * 4 + t) * PART..][..PART] == part(t, i))));
    assert_eq!(fs::metadata(dir.path().join("home/own3")).unwrap().size(), (PART * PARTS) as u64);
    instance.shutdown();
    instance.remove_buffer().unwrap();
}
