use super::*;

use tempfile::TempDir;

/// The layers of a command line, an environment and a file.
fn layers(flags: &[(Key, &str)], variables: &[(&str, &str)], file: Option<&str>) -> (TempDir, Result<Layers, SettingError>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    if let Some(text) = file {
        std::fs::write(&path, text).unwrap();
    }
    let variables: Vec<(OsString, OsString)> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let flag = |key: Key| flags.iter().find(|(given, _)| *given == key).map(|(_, value)| value.into());
    let layers = Layers::load(&flag, file.map(|_| path), &variables, &|path| std::fs::read_to_string(path));
    (folder, layers)
}

fn settings(flags: &[(Key, &str)], variables: &[(&str, &str)], file: Option<&str>) -> Result<Settings, String> {
    let (_folder, layers) = layers(flags, variables, file);
    layers.and_then(|layers| Settings::read(&layers)).map_err(|error| error.to_string())
}

#[test]
fn a_higher_layer_wins() {
    let file = Some("capacity = \"1GiB\"\nmemory = \"64MiB\"\nchunk = 65536\nkeep = true\n");
    let variables = [("FOREBAY_CAPACITY", "2GiB"), ("FOREBAY_MEMORY", "128MiB")];
    let flags = [(Key::Capacity, "3GiB")];
    let (folder, loaded) = layers(&flags, &variables, file);
    let loaded = loaded.unwrap();
    let settings = Settings::read(&loaded).unwrap();
    assert_eq!(settings.capacity_bytes, Some(3 << 30));
    assert_eq!(settings.memory_bytes, Some(128 << 20));
    assert_eq!(settings.chunk_bytes, 65536);
    assert!(settings.keep);
    assert_eq!(settings.replacement, ReplacementKind::Lru);
    assert_eq!(loaded.source(Key::Capacity).to_string(), "--capacity");
    assert_eq!(loaded.source(Key::Memory).to_string(), "FOREBAY_MEMORY");
    assert_eq!(loaded.source(Key::Chunk).to_string(), format!("{}, line 3", folder.path().join("config.toml").display()));
    assert_eq!(loaded.source(Key::Replacement).to_string(), "default");
}

#[test]
fn every_name_is_understood() {
    for (name, kind) in REPLACEMENTS {
        assert_eq!(settings(&[(Key::Replacement, name)], &[], None).unwrap().replacement, kind);
    }
    assert_eq!(settings(&[(Key::WriteBack, "SYNC")], &[], None).unwrap().write_back, WriteBack::Sync);
    assert!(settings(&[(Key::KernelCache, "write-back")], &[], None).unwrap().kernel_write_back);
    assert_eq!(settings(&[(Key::WriteBackDelay, "0")], &[], None).unwrap().write_back_delay_ns, 0);
    assert_eq!(settings(&[(Key::Grace, "2min")], &[], None).unwrap().grace_ns, 120_000_000_000);
}

#[test]
fn what_is_shown_can_be_read_again() {
    let all = "mount = \"/b\"\nbuffer = \"/c\"\nmemory = \"1GiB\"\ncapacity = \"1537B\"\nchunk = \"64KiB\"\nreplacement = \"s3-fifo\"\n\
        write-back = \"sync\"\nwrite-back-delay = \"7ms\"\nkernel-cache = \"write-back\"\nallow-other = true\nkeep = true\nreport = \"/d\"\n\
        record = \"/e\"\ntrace = \"/t\"\nmemory-dir = \"/f\"\nhome-threads = 3\nmount-threads = 5\ngrace = \"9ms\"\nbusy-wait = \"1s\"\nmetrics = \"127.0.0.1:9100\"\n\
        stripe = \"4KiB\"\nkey-file = \"/k\"\nserver-wait = \"3s\"\n";
    // Home is a directory or servers.
    for (home, other) in [("backing = \"/a\"\n", Key::Servers), ("servers = \"a:1,unix:/b\"\n", Key::Backing)] {
        let first = settings(&[], &[], Some(&format!("{home}{all}"))).unwrap();
        assert_eq!(first.text(other), None);
        let given = Key::ALL.iter().filter(|key| **key != other);
        let shown: String = given.map(|key| format!("{} = {}\n", key.name(), toml::Value::String(first.text(*key).unwrap()))).collect();
        assert_eq!(settings(&[], &[], Some(&shown)), Ok(first));
    }
    assert!(settings(&[(Key::Backing, "/a"), (Key::Servers, "a:1")], &[], None).unwrap_err().contains("--servers"));
}

#[test]
fn a_wrong_value_names_where_it_stands() {
    for (flags, variables, file, parts) in [
        (&[(Key::Capacity, "12Q")][..], &[][..], None, ["--capacity", "\"12Q\" is no size"]),
        (&[], &[("FOREBAY_MEMORY", "lots")], None, ["FOREBAY_MEMORY", "\"lots\" is no size"]),
        (
            &[],
            &[],
            Some("\n\nreplacement = \"mru\"\n"),
            ["config.toml, line 3", "fifo, lru, lfu, lfuda, s3-fifo, sieve, arc, lirs, w-tinylfu"],
        ),
        (&[], &[], Some("chunk = 1.5\n"), ["config.toml, line 1", "a number with a fraction"]),
        (&[], &[], Some("chunk = 0x10\n"), ["config.toml, line 1", "not decimal"]),
        (&[], &[], Some("[memory]\nx = 1\n"), ["config.toml, line 1", "a table"]),
        (&[], &[], Some("keep = true\ncapactiy = 1\n"), ["config.toml, line 2", "\"capactiy\""]),
        (&[], &[], Some("keep = \n"), ["config.toml", "line 1"]),
        (&[], &[], Some("buffer = \"scratch\"\n"), ["config.toml, line 1", "absolute"]),
        (&[(Key::Backing, "")], &[], None, ["--backing", "it is empty"]),
        (&[(Key::Keep, "maybe")], &[], None, ["--keep", "true or false"]),
        (&[(Key::HomeThreads, "0")], &[], None, ["--home-threads", "from 2 to 256"]),
        (&[(Key::Grace, "10")], &[], None, ["--grace", "as in 500ms"]),
        (&[(Key::Grace, "99999999999999999999s")], &[], None, ["--grace", "as in 500ms"]),
        (&[(Key::Grace, "18446744073709551615s")], &[], None, ["--grace", "too long"]),
    ] {
        let text = settings(flags, variables, file).unwrap_err();
        for part in parts {
            assert!(text.contains(part), "{text:?} lacks {part:?}");
        }
    }
}

#[test]
fn only_a_file_that_was_named_must_exist() {
    let named =
        Layers::load(&|_| None, Some("/no/such/file.toml".into()), &[], &|path| std::fs::read_to_string(path)).unwrap_err().to_string();
    assert!(named.contains("/no/such/file.toml") && named.contains("--config"), "{named}");
    let variable =
        Layers::load(&|_| None, None, &[("FOREBAY_CONFIG".into(), "/no/such/file.toml".into())], &|path| std::fs::read_to_string(path))
            .unwrap_err()
            .to_string();
    assert!(variable.contains("FOREBAY_CONFIG"), "{variable}");
    assert_eq!(
        Layers::load(&|_| None, None, &[("XDG_CONFIG_HOME".into(), "/no/such".into())], &|path| std::fs::read_to_string(path))
            .unwrap()
            .file,
        None
    );
}

#[test]
fn the_default_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forebay/config.toml");
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "keep = true\n").unwrap();
    let loaded =
        Layers::load(&|_| None, None, &[("XDG_CONFIG_HOME".into(), folder.path().into())], &|path| std::fs::read_to_string(path)).unwrap();
    assert_eq!(loaded.file, Some(path));
    assert!(Settings::read(&loaded).unwrap().keep);
}

#[test]
fn a_surrounding_run_sets_no_mount() {
    assert_eq!(settings(&[], &[("FOREBAY_MOUNT", "/run/outer")], None).unwrap().mount, None);
}

#[test]
fn a_variable_that_is_no_setting_is_noticed() {
    let (_folder, loaded) =
        layers(&[], &[("FOREBAY_CAPACTIY", "1G"), ("FOREBAY_CHUNK", "1M"), ("FOREBAY_MOUNT", "/m"), ("PATH", "/bin")], None);
    assert_eq!(loaded.unwrap().unknown_variables, ["FOREBAY_CAPACTIY"]);
}
