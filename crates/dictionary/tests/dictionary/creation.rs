//! A creation that fails or is killed leaves nothing that hinders the next one.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use tamis_dictionary::{Error, Layout, Options, Store, store};

use crate::common::{Dict, Home, LAYOUTS, Named, Watch, Watched, busy_options};

/// Fails the creation by its options and by a fault of the store at every call.
pub(crate) fn check_failed_creation(home: &impl Home) {
    let is_empty = |what: &str| {
        assert_eq!(home.contents(), Vec::<String>::new(), "{what}");
        let opened = home.open().and_then(Dict::open).map(drop);
        assert!(matches!(opened, Err(Error::NotFound)), "{what}: {opened:?}");
    };
    is_empty("before");
    drop(home.create().unwrap());
    is_empty("a store without a dictionary");
    for options in [busy_options(100).with_fpr(0.0), busy_options(100).with_keys(u64::MAX)] {
        let created = Dict::create(home.create().unwrap(), options).map(drop);
        assert!(matches!(created, Err(Error::Filter(_))), "{created:?}");
        is_empty("options");
    }
    for calls in 0.. {
        let watch = Arc::new(Watch::default());
        watch.fuse.0.store(calls, SeqCst);
        let store = Watched(home.create().unwrap(), Arc::clone(&watch));
        match Dict::create(store, busy_options(100)) {
            Err(Error::Store { store: "test", .. }) => is_empty("fault"),
            created => {
                created.unwrap();
                assert!(calls >= 3, "only {calls} calls");
                break;
            }
        }
    }
    let created = home.create().and_then(|store| Dict::create(store, busy_options(100))).map(drop);
    assert!(matches!(created, Err(Error::AlreadyExists)), "{created:?}");
    assert_eq!(Dict::open(home.open().unwrap()).unwrap().stats().keys, 0);
}

/// The steps of a creation after which the process is killed.
const STEPS: [&str; 3] = ["create", "acquire", "set_meta"];

fn start(location: &str, layout: Layout, step: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "creation::create_until_killed", "--nocapture"])
        .env("TAMIS_CREATE", location)
        .env("TAMIS_CREATE_LAYOUT", layout.name())
        .env("TAMIS_CREATE_STEP", step)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "created"));
    child
}

/// Kills a process during a creation. `expire` ends its claim on a server.
pub(crate) fn check_killed_creation(home: impl Fn(Layout) -> Named, expire: impl Fn(&str)) {
    for layout in LAYOUTS {
        for step in STEPS {
            let home = home(layout);
            let mut child = start(&home.location, layout, step);
            let create = || home.create().and_then(|store| Dict::create(store, busy_options(100)));
            let open = || home.open().and_then(Dict::open);
            // A server knows nothing of it before `acquire`.
            if step != "create" || home.folder.is_some() {
                let opened = open().map(drop);
                assert!(matches!(opened, Err(Error::InUse)), "{step}: {opened:?}");
                let created = create().map(drop);
                assert!(matches!(created, Err(Error::InUse)), "{step}: {created:?}");
            }
            child.kill().unwrap();
            child.wait().unwrap();
            expire(&home.location);
            let opened = open().map(drop);
            match home.contents().len() {
                0 => assert!(matches!(opened, Err(Error::NotFound)), "{step}: {opened:?}"),
                _ => assert!(matches!(opened, Err(Error::Unfinished)), "{step}: {opened:?}"),
            }
            // In the other layout, which needs other tables.
            let other = LAYOUTS.into_iter().find(|other| *other != layout).unwrap();
            let again = store::create(&home.location, other).unwrap();
            let dict = Dict::create(again, Options::default().with_keys(100)).unwrap();
            assert!(!dict.put(b"a", b"1").unwrap());
            dict.close().unwrap();
            let dict = open().unwrap();
            assert_eq!((dict.layout(), dict.verify().unwrap().keys), (other, 1));
        }
    }
}

/// The child process of the tests above. Without its environment variables it does nothing.
#[test]
fn create_until_killed() {
    let Ok(location) = std::env::var("TAMIS_CREATE") else { return };
    let layout = std::env::var("TAMIS_CREATE_LAYOUT").unwrap();
    let layout = LAYOUTS.into_iter().find(|known| known.name() == layout).unwrap();
    let step = std::env::var("TAMIS_CREATE_STEP").unwrap();
    let store = store::create(&location, layout).unwrap();
    if step != "create" {
        store.acquire().unwrap();
    }
    if step == "set_meta" {
        store.set_meta(&[("state", b"unfinished")]).unwrap();
    }
    println!("\ncreated");
    loop {
        std::thread::park();
    }
}

#[test]
fn killed_creations_of_files_are_resumed() {
    for name in ["dict.redb", "dict"] {
        check_killed_creation(|layout| Named::in_temp_folder(name, layout), |_| ());
    }
}

/// A redb file is published by a hard link; the process may be killed before it removes the temporary name.
#[cfg(unix)]
#[test]
fn a_published_file_survives_a_creation_of_the_same_name() {
    let home = Named::in_temp_folder("dict.redb", Layout::Clustered);
    let dict = Dict::create(home.create().unwrap(), busy_options(100)).unwrap();
    dict.put(b"a", b"1").unwrap();
    dict.close().unwrap();
    let moved = format!("{}.moved.redb", home.location);
    std::fs::hard_link(&home.location, format!("{}.creating", home.location)).unwrap();
    assert!(matches!(home.create(), Err(Error::AlreadyExists)));
    std::fs::rename(&home.location, &moved).unwrap();
    Dict::create(home.create().unwrap(), busy_options(100)).unwrap().close().unwrap();
    let dict = Dict::open(store::open(&moved).unwrap()).unwrap();
    assert_eq!(dict.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// The seed is in the file, so that only its owner may read it.
#[cfg(unix)]
#[test]
fn a_redb_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let home = Named::in_temp_folder("dict.redb", Layout::Clustered);
    Dict::create(home.create().unwrap(), busy_options(100)).unwrap().close().unwrap();
    let mode = std::fs::metadata(&home.location).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
