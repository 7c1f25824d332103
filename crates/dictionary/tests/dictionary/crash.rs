//! The process is killed at random moments: no acknowledged write is lost, and the filter rejects no member.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use tamis_conformance::Effort;
use tamis_conformance::keys::Random;
use tamis_dictionary::store::RedbStore;
use tamis_dictionary::{Layout, Op};

use crate::common::{Dict, RedbHome, busy_options, key};

const KEYS: u64 = 300;

/// A key and its value after a write of the child, or `None` if the key was deleted.
type LoggedWrite = (u64, Option<u64>);

fn parse(line: &str) -> Option<(bool, Vec<LoggedWrite>)> {
    let mut words = line.split_whitespace();
    let done = match words.next()? {
        "begin" => false,
        "done" => true,
        _ => return None,
    };
    let each = words.map(|word| {
        let (key, value) = word.split_once('=')?;
        Some((key.parse().ok()?, value.parse().ok()))
    });
    Some((done, each.collect::<Option<_>>()?))
}

#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    let effort = Effort::now();
    let mut random = effort.random(11);
    let kills = effort.times(50);
    let (mut acknowledged, mut unclean) = (0, 0);
    for layout in [Layout::Clustered, Layout::Secondary] {
        let home = RedbHome::new(layout);
        drop(Dict::create(home.create(), busy_options(100)).unwrap());
        let mut known = HashMap::<u64, u64>::new();
        for kill in 0..kills / 2 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "crash::write_until_killed", "--nocapture"])
                .env("TAMIS_CRASH", home.path())
                .env("TAMIS_CRASH_SEED", random.word().to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            // Kill after a random number of lines and a random delay.
            let mut output: Vec<String> =
                lines.by_ref().map(Result::unwrap).take(2 + random.below(30)).collect();
            std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
            child.kill().unwrap();
            child.wait().unwrap();
            output.extend(lines.map_while(Result::ok));
            // A write that was begun and not acknowledged may be present or absent, but as a whole.
            let mut begun = Vec::new();
            for (done, writes) in output.iter().filter_map(|line| parse(line)) {
                begun = writes;
                if done {
                    acknowledged += 1;
                    apply(&mut known, &std::mem::take(&mut begun));
                }
            }
            let dict = Dict::open(home.open()).unwrap();
            unclean += dict.notices().len();
            let mut found = HashMap::new();
            for number in 0..KEYS {
                if let Some(value) = dict.get(&key(number)).unwrap() {
                    found.insert(number, u64::from_le_bytes(value.try_into().unwrap()));
                }
            }
            if found != known {
                apply(&mut known, &begun);
            }
            assert_eq!(found, known, "kill {kill}");
            let audit = dict.verify().unwrap();
            assert_eq!((audit.keys, audit.missing), (known.len() as u64, 0));
            dict.close().unwrap();
        }
    }
    println!("{kills} kills, {unclean} unclean, {acknowledged} writes acknowledged");
    assert!(acknowledged > 5 * kills && unclean as u64 > kills / 2);
}

fn apply(known: &mut HashMap<u64, u64>, writes: &[LoggedWrite]) {
    for (key, value) in writes {
        match value {
            Some(value) => known.insert(*key, *value),
            None => known.remove(key),
        };
    }
}

/// The child process of the test above. Without its environment variables it does nothing.
#[test]
fn write_until_killed() {
    let Some(path) = std::env::var_os("TAMIS_CRASH") else { return };
    let seed = std::env::var("TAMIS_CRASH_SEED").unwrap().parse().unwrap();
    let mut random = Random::new(seed);
    let dict = Dict::open(RedbStore::open(path).unwrap()).unwrap();
    println!();
    loop {
        let writes: Vec<LoggedWrite> = (0..1 + random.below(4))
            .map(|_| {
                let value = (random.below(3) > 0).then(|| random.word() >> 1);
                (random.below(KEYS as usize) as u64, value)
            })
            .collect();
        let line: String = writes
            .iter()
            .map(|(key, value)| format!(" {key}={}", value.map_or("-".into(), |v| v.to_string())))
            .collect();
        let bytes: Vec<_> = writes
            .iter()
            .map(|(number, value)| (key(*number), value.map(u64::to_le_bytes)))
            .collect();
        let ops: Vec<_> = bytes
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Op::Put(key, value),
                None => Op::Delete(key),
            })
            .collect();
        let log = |word: &str| {
            let mut out = std::io::stdout().lock();
            out.write_all(format!("{word}{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
        };
        log("begin");
        dict.write(&ops).unwrap();
        log("done");
        // Some absent keys, so that the filter is repaired as well.
        (0..20).for_each(|_| drop(dict.get(&key(1000 + random.below(9000) as u64)).unwrap()));
    }
}
