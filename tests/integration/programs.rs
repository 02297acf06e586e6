//! Programs that people use, unmodified, with more room than they need and with far less: what they leave at home is what they leave in a
//! plain directory.

use std::path::{Path, PathBuf};

use forebay_tests::listing::{self, Times};
use forebay_tests::process::{machine_has, run};
use forebay_tests::repository;
use forebay_tests::sandbox::{AMPLE, Sandbox, TIGHT, same_as_plain};

fn program_source(name: &str) -> PathBuf {
    repository::root().join("tests/programs").join(name)
}

/// Compiles a C program of the tests into a folder.
fn compiled(folder: &Path, compiler: &str, name: &str, more: &[&str]) -> PathBuf {
    let (source, program) = (program_source(&format!("{name}.c")), folder.join(name));
    let object = folder.join(format!("{name}.o"));
    let text = |path: &Path| path.to_str().expect("paths in UTF-8").to_owned();
    run(compiler, &["-O1", "-Wall", "-c", "-o", &text(&object), &text(&source)]);
    let link: Vec<String> =
        ["-o".to_owned(), text(&program), text(&object)].into_iter().chain(more.iter().map(|&m| m.to_owned())).collect();
    run(compiler, &link);
    program
}

/// Montage makes a mosaic of nine images: projected, differences fitted, backgrounds evened out, added up. The images are listed by a
/// table, because their order in a directory is the file system's own.
#[test]
fn montage_makes_a_mosaic() {
    if !machine_has(&["mProjExec", "mAdd", "python3"]) {
        return;
    }
    let script = r#"
ok() { "$@" >"$OUTSIDE"/said; grep -q 'stat="OK"' "$OUTSIDE"/said || { cat "$OUTSIDE"/said; exit 1; }; }
table() {
    { echo '| fname                |'; echo '| char                 |'; (cd "$1"; for f in $(ls *.fits | grep -v _area | LC_ALL=C sort); do printf ' %-21s\n' "$f"; done); } >"$2.list"
    ok mImgtbl -t "$2.list" "$1" "$2"
}
python3 "$FITS" raw
mkdir projected differences corrected
table raw raw.tbl
ok mMakeHdr raw.tbl template.hdr
ok mProjExec -p raw raw.tbl template.hdr projected stats.tbl
table projected projected.tbl
ok mOverlaps projected.tbl differences.tbl
ok mDiffExec -p projected differences.tbl template.hdr differences
ok mFitExec differences.tbl fits.tbl differences
ok mBgModel projected.tbl fits.tbl corrections.tbl
ok mBgExec -p projected projected.tbl corrections.tbl corrected
table corrected corrected.tbl
ok mAdd -p corrected corrected.tbl template.hdr mosaic.fits
"#;
    let script = format!("FITS={}\n{script}", program_source("fits.py").display());
    for size in [AMPLE, TIGHT] {
        // Its table of statistics has how long each image took.
        let home = same_as_plain(size, &[], &script, &["stats.tbl"]);
        assert!(home["mosaic.fits"].size > Some(1_000_000), "{:?}", home["mosaic.fits"]);
        let bytes: u64 = home.values().filter_map(|object| object.size).sum();
        assert!(bytes > 8 << 20, "{bytes} bytes would fit into the tight buffer");
    }
}

#[test]
fn four_ranks_share_an_hdf5_file() {
    if !machine_has(&["h5pcc.mpich", "mpiexec"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory for the program");
    let program = compiled(folder.path(), "h5pcc.mpich", "parallel_hdf5", &[]);
    let script = format!("mpiexec -n 4 {} data.h5", program.display());
    for size in [AMPLE, TIGHT] {
        let home = same_as_plain(size, &[], &script, &[]);
        assert!(home["data.h5"].size > Some(9 << 20), "{:?}", home["data.h5"]);
    }
}

#[test]
fn netcdf_appends_time_steps() {
    if !machine_has(&["gcc", "nc-config"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory for the program");
    let flags = run("nc-config", &["--libs"]);
    let program = compiled(folder.path(), "gcc", "netcdf", &flags.split_whitespace().collect::<Vec<_>>());
    let script = ["classic", "64bit", "netcdf4"].map(|kind| format!("{} {kind}.nc {kind}", program.display())).join("\n");
    for size in [AMPLE, TIGHT] {
        same_as_plain(size, &[], &script, &[]);
    }
}

/// A repository with a history, cloned, worked in, packed and checked; then its objects at home are checked again without Forebay.
#[test]
fn git_clones_commits_and_packs() {
    if !machine_has(&["git"]) {
        return;
    }
    const MAKE: &str = r#"
git init -q -b main "$1"; cd "$1"
for i in $(seq 1 40); do
    mkdir -p "dir$((i % 7))"
    for j in $(seq 1 6); do seq $((i * j)) $((i * j + 400)) >"dir$((i % 7))/file$j"; done
    head -c 150000 /dev/urandom >"blob$((i % 5))"
    git add -A; git commit -q -m "change $i"
done
"#;
    for size in [AMPLE, TIGHT] {
        let sandbox = Sandbox::new();
        let origin = sandbox.outside().join("origin");
        let configuration = "export HOME=\"$OUTSIDE\" GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1";
        let script = format!(
            r#"{configuration}
(set -- "{origin}"; {MAKE})
git clone -q "{origin}" clone; cd clone
git checkout -q -b side HEAD~10; seq 1 1000 >new; git add new; git commit -q -m side
git merge -q -m merged main; git rm -q -r dir3; git commit -q -m removed; git tag done
git repack -a -d -q; git gc -q --prune=now; git fsync --quiet 2>/dev/null || true
git fsck --strict --no-progress; test -z "$(git status --porcelain)"
git rev-parse HEAD >"$OUTSIDE"/head; cd ..
"#,
            origin = origin.display()
        );
        sandbox.run_and_compare(size, &[], &script);
        let clone = sandbox.home().join("clone");
        let at = clone.to_str().expect("UTF-8");
        run("git", &["-c", "safe.directory=*", "-C", at, "fsck", "--strict", "--no-progress"]);
        assert_eq!(run("git", &["-c", "safe.directory=*", "-C", at, "status", "--porcelain"]), "");
        let head = std::fs::read_to_string(sandbox.outside().join("head")).expect("git told its head");
        assert_eq!(run("git", &["-c", "safe.directory=*", "-C", at, "rev-parse", "HEAD"]), head);
    }
}

/// Sixty C files with headers that they share, compiled by four jobs into objects, libraries and a program; touched and built again.
#[test]
fn a_kernel_style_build() {
    if !machine_has(&["make", "gcc"]) {
        return;
    }
    let script = r##"
mkdir -p include
for d in core drivers lib; do
    mkdir -p $d
    for i in $(seq 1 20); do
        printf '#include "config.h"\n#include "%s.h"\nint %s_%d(int x) { return x * CONFIG_FACTOR + %d; }\n' $d $d $i $i >$d/f$i.c
    done
    { for i in $(seq 1 20); do echo "int ${d}_$i(int x);"; done; } >include/$d.h
done
echo '#define CONFIG_FACTOR 3' >include/config.h
printf '#include <stdio.h>\n#include "core.h"\n#include "drivers.h"\n#include "lib.h"\nint main(void) { printf("%%d\\n", core_1(1) + drivers_20(2) + lib_7(3)); return 0; }\n' >main.c
cat >Makefile <<'END'
CFLAGS := -O1 -Iinclude -MMD -MP
DIRS := core drivers lib
LIBS := $(DIRS:%=%/built-in.a)
program: main.o $(LIBS)
	gcc -o $@ main.o $(LIBS)
define archive
$(1)/built-in.a: $(patsubst %.c,%.o,$(wildcard $(1)/*.c))
	rm -f $$@ && ar rcsD $$@ $$^
endef
$(foreach d,$(DIRS),$(eval $(call archive,$(d))))
%.o: %.c
	gcc $(CFLAGS) -c -o $@ $<
-include $(wildcard *.d */*.d)
END
make -s -j4; ./program >first
echo '#define CONFIG_FACTOR 5' >include/config.h
make -s -j4; ./program >second; ! cmp -s first second
make -q
"##;
    for size in [AMPLE, TIGHT] {
        let home = same_as_plain(size, &[], script, &[]);
        assert!(home.keys().filter(|path| path.ends_with(".o")).count() == 61, "{:?}", home.keys());
    }
}

/// A tree with everything that archivers carry: holes, hard links, symlinks, modes, times, fifos, odd names.
const FURNISH: &str = r#"
mkdir -p "$1/deep/er/still"; cd "$1"
head -c 3000000 /dev/urandom >random; seq 1 200000 >text; : >empty
truncate -s 20M sparse; printf middle | dd of=sparse bs=1 seek=9000000 conv=notrunc status=none
ln random deep/twin; ln -s ../text deep/link; ln -s nowhere dangling; mkfifo pipe
touch -d '1999-12-31 23:59:59.123456789' text; chmod 4750 text; chmod 1777 deep
printf x >'name with spaces and
a new line'; for i in $(seq 1 300); do echo $i >deep/er/still/small-$i; done
python3 -c 'import os
try:
    os.setxattr("text", "user.origin", b"somewhere")
    os.setxattr("deep", "user.note", b"\0\1\2")
except OSError:
    pass'
touch -d '2001-02-03 04:05:06' deep/er deep .
"#;

#[test]
fn tar_rsync_and_cp_carry_everything() {
    if !machine_has(&["tar", "rsync", "python3"]) {
        return;
    }
    for size in [AMPLE, TIGHT] {
        let sandbox = Sandbox::new();
        let source = sandbox.outside().join("source");
        let script = format!(
            r#"(set -- "{source}"; {FURNISH})
rsync -aHAX --numeric-ids "{source}/" synced/
rsync -aHAXS --delete --numeric-ids "{source}/" synced/
tar -C "{source}" --sparse --xattrs -cf archive.tar .
mkdir untarred; tar -C untarred --xattrs -xpf archive.tar
cp -a --sparse=always "{source}" copied
mkdir "$OUTSIDE"/back; tar -C copied --sparse -cf - . | tar -C "$OUTSIDE"/back -xpf -
for copy in synced untarred copied; do
    rsync -aHAXn --delete --checksum --itemize-changes --numeric-ids "{source}/" $copy/ >"$OUTSIDE"/differences
    if [ -s "$OUTSIDE"/differences ]; then echo $copy; cat "$OUTSIDE"/differences; exit 1; fi
done >&2
"#,
            source = source.display()
        );
        let (_, home) = sandbox.run_and_compare(size, &[], &script);
        let original = listing::list(&source).expect("the source is readable");
        for copy in ["synced", "untarred", "copied"] {
            let copied = listing::list(&sandbox.home().join(copy)).expect("a copy is readable");
            listing::assert_same(&original, &copied, Times::Set, copy);
        }
        assert!(home.len() > 900);
    }
}

/// Python's own tests of what it asks of a file system, with their files in the mount.
#[test]
fn pythons_own_tests() {
    if !machine_has(&["python3"]) {
        return;
    }
    let has_tests = std::process::Command::new("python3").args(["-c", "import test.test_os"]).output().is_ok_and(|o| o.status.success());
    if !has_tests {
        assert!(std::env::var_os("CI").is_none(), "Python's tests are not installed (scripts/setup)");
        eprintln!("SKIPPED: Python's tests are not installed (scripts/setup)");
        return;
    }
    // What fails in a plain directory, too, is no matter of ours; each file of tests is a run of its own, so that one does not hide another.
    let script = r#"
for name in test_os test_shutil test_tempfile test_mmap test_zipfile; do
    mkdir work; TMPDIR="$PWD/work" python3 -m test --tempdir "$PWD/work" $name >"$OUTSIDE/$1-$name" 2>&1 && echo "$name passed" >>"$OUTSIDE/$1" || echo "$name failed" >>"$OUTSIDE/$1"
    rm -rf work
done
"#;
    let sandbox = Sandbox::new();
    sandbox.run_plain(&format!("set -- plain\n{script}"));
    sandbox.run_and_compare(TIGHT, &[], &format!("set -- mounted\n{script}"));
    let told = |name: &str| std::fs::read_to_string(sandbox.outside().join(name)).expect("the tests told their outcome");
    for line in told("plain").lines().filter(|line| line.ends_with("passed")) {
        let name = line.split(' ').next().expect("a name");
        assert!(told("mounted").lines().any(|found| found == line), "{name} failed:\n{}", told(&format!("mounted-{name}")));
    }
    assert!(told("plain").lines().filter(|line| line.ends_with("passed")).count() >= 4, "{}", told("plain"));
}

#[test]
fn an_editor_saves_atomically() {
    if !machine_has(&["python3"]) {
        return;
    }
    let script = format!("python3 {} notebook.ipynb 300", program_source("atomic_saves.py").display());
    for size in [AMPLE, TIGHT] {
        let home = same_as_plain(size, &[], &script, &[]);
        assert_eq!(home.keys().collect::<Vec<_>>(), [".", "notebook.ipynb", "notebook.ipynb.checkpoint"]);
    }
}
