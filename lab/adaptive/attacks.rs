//! What somebody does who repeats what got in, and what a stream of ordinary queries does.

use anyhow::Result;
use lab::{Line, STRANGERS, Sheet, hashes};
use tamis::{AnyFilter, BroomShape, Build, Capability, Filter, KeyHash, Kind, Shape, Sizing};

use crate::guarded::{Guarded, through_a_file};
use crate::{ADAPTIVE, Claims, KINDS, Random, STATIC, form};

/// Keys of most of these, and a poor rate, so that a sweep needs few queries.
pub(crate) const KEYS: u64 = 10_000;
pub(crate) const POOR: f64 = 1.0 / 32.0;

/// Strangers counted on from a number.
fn stranger(salt: u64, number: u64) -> KeyHash {
    hashes(salt, STRANGERS + number, 1)[0]
}

/// Sets asked for again and again, some passes: random strangers, and ones that got in before.
pub(crate) fn replay(claims: &mut Claims) -> Result<()> {
    const PASSES: usize = 16;
    let columns = [
        "filter",
        "attack set",
        "strangers",
        "of H*",
        "sweeps",
        "last pass / eps",
        "worst pass / eps",
        "last pass %",
    ];
    let mut sheet = Sheet::new("adaptive", "replay", &columns);
    let members = hashes(21, 0, KEYS);
    let limit = Guarded::new(Kind::Broom, members.clone(), POOR)?.broom()?.working_set();
    println!("\nH* of {KEYS} keys at 1/32: {limit:.0} strangers, {:.2} a key", limit / KEYS as f64);
    let mut lines = Vec::new();
    let (mut below, mut above, mut within, mut controls) = (0f64, 0f64, true, 1f64);
    for kind in KINDS {
        // A filter that does not adapt has its rate of any set, each time.
        for found in [false, true].into_iter().filter(|found| *found || ADAPTIVE.contains(&kind)) {
            let mut points = Vec::new();
            for part in [0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0] {
                let mut guarded = Guarded::new(kind, members.clone(), POOR)?;
                let count = (limit * part) as usize;
                let mut set = Vec::with_capacity(count);
                for number in 0.. {
                    if set.len() == count {
                        break;
                    }
                    let x = stranger(21, number);
                    if !found || guarded.ask(x)? {
                        set.push(x);
                    }
                }
                let begin = guarded.counts.sweeps;
                let (mut last, mut worst) = (0.0, 0f64);
                for pass in 0..PASSES {
                    let before = guarded.counts;
                    for x in &set {
                        guarded.ask(*x)?;
                    }
                    last = guarded.counts.since(&before, POOR);
                    if pass > 0 {
                        worst = worst.max(last);
                    }
                }
                if kind == Kind::Broom {
                    above = above.max(worst);
                    within &= worst <= 1.0 + 4.0 / (count as f64 * POOR).sqrt();
                    if part <= 0.5 {
                        below = below.max(last);
                    }
                } else if STATIC.contains(&kind) && found {
                    controls = controls.min(last * POOR);
                }
                let what = if found { "got in before" } else { "any" };
                let sweeps = guarded.counts.sweeps - begin;
                let shares = [last, worst, 100.0 * last * POOR].map(form);
                let [rate, worst, percent] = &shares;
                sheet.row(&[&kind, &what, &count, &part, &sweeps, rate, worst, percent]);
                points.push((part, last.max(1e-4)));
            }
            if found || kind == Kind::Broom {
                let what = if found { "got in before" } else { "any strangers" };
                lines.push(Line::measured(format!("{kind}: {what}"), points));
            }
        }
    }
    let title = "The same strangers 16 times, 1/32";
    sheet.finish(title, "attack set / H*", "last pass: let in / eps", true, lines)?;
    claims.add("replay; up to H*/2", "<= 0.01 eps in the 16th pass", form(below), below <= 0.01);
    claims.add("replay; any set up to 4 H*", "each pass <= eps (4 sigma)", form(above), within);
    let percent = format!("{:.1} %", 100.0 * controls);
    claims.add("replay; static controls", "all get in again", percent, controls > 0.999);
    Ok(())
}

/// Half of the queries are new, half are drawn from the first so many that got in; sweeps go on.
pub(crate) fn mix(claims: &mut Claims) -> Result<()> {
    let columns = [
        "filter",
        "eps",
        "set a key",
        "of H*",
        "sweeps",
        "overall / eps",
        "new / eps",
        "old / eps",
    ];
    let mut sheet = Sheet::new("adaptive", "mix", &columns);
    let (mut overall, mut within, mut small, mut large) = (0f64, true, 0f64, 0f64);
    let mut lines = Vec::new();
    for (eps, keys) in [(POOR, KEYS), (1.0 / 256.0, KEYS)] {
        let members = hashes(22, 0, keys);
        let limit = Guarded::new(Kind::Broom, members.clone(), eps)?.broom()?.working_set();
        for kind in KINDS {
            let mut points = Vec::new();
            for part in [0.01, 0.03, 0.1, 0.3, 1.0] {
                let most = (keys as f64 * part) as usize;
                let mut guarded = Guarded::new(kind, members.clone(), eps)?;
                let Mixed { new, old, rounds, begin } = half_repeated(&mut guarded, most, eps)?;
                let both = f64::midpoint(new, old);
                let sweeps = guarded.counts.sweeps - begin;
                if ADAPTIVE.contains(&kind) {
                    overall = overall.max(both);
                    within &= both <= 1.0 + 4.0 / (2.0 * rounds as f64 * eps).sqrt();
                }
                if kind == Kind::Broom && (part == 0.01 || part == 1.0) {
                    let which = if part == 1.0 { &mut large } else { &mut small };
                    *which = which.max(old);
                }
                let [of, both, new, shown] = &[most as f64 / limit, both, new, old].map(form);
                sheet.row(&[&kind, &form(eps), &part, of, &sweeps, both, new, shown]);
                points.push((f64::log10(part), old));
            }
            if ADAPTIVE.contains(&kind) {
                lines.push(Line::measured(format!("{kind} 1/{}", 1.0 / eps), points));
            }
        }
    }
    let title = "Half of the queries repeat what got in, while sweeps go on";
    let x = "strangers that got in, a key, as log10";
    sheet.finish(title, x, "repeated ones let in / eps", true, lines)?;
    let statement = "overall <= eps (4 sigma)";
    claims.add("50 % replay; all adaptive kinds", statement, form(overall), within);
    let statement = "repeated ones <= 0.01 eps";
    claims.add("50 % replay of 0.01 n during sweeps", statement, form(small), small <= 0.01);
    claims.add("50 % replay of n during sweeps", statement, form(large), large <= 0.01);
    Ok(())
}

/// What [`half_repeated`] counted: the rates of both kinds of queries, in units of `eps`.
struct Mixed {
    new: f64,
    old: f64,
    rounds: u64,
    /// The sweeps before the first round.
    begin: u64,
}

/// Queries new non-members until `most` of them got in. Then half of the queries repeat one of those, for
/// over four sweeps of a broom, each being half as many false positives as keys.
fn half_repeated(guarded: &mut Guarded, most: usize, eps: f64) -> Result<Mixed> {
    let (mut set, mut random, mut number) = (Vec::new(), Random(7), 0);
    while set.len() < most {
        let x = stranger(22, number);
        if guarded.ask(x)? {
            set.push(x);
        }
        number += 1;
    }
    let begin = guarded.counts.sweeps;
    let (mut new, mut old) = (0u64, 0u64);
    let rounds = (2.4 * guarded.store.0.len() as f64 / eps) as u64;
    for round in 0..rounds {
        new += u64::from(guarded.ask(stranger(22, number + round))?);
        old += u64::from(guarded.ask(set[random.below(most as u64) as usize])?);
    }
    let [new, old] = [new, old].map(|let_in| let_in as f64 / rounds as f64 / eps);
    Ok(Mixed { new, old, rounds, begin })
}

/// The same against the adaptive cuckoo filter, beside a broom: it advances a selector of 2 bits for each
/// false positive, so a member with several of them brings back what it rejected.
pub(crate) fn forgetting(claims: &mut Claims) -> Result<()> {
    const EPS: f64 = 1.0 / 256.0;
    let columns = ["filter", "bits a key", "set a key", "new / eps", "old / eps"];
    let mut sheet = Sheet::new("adaptive", "forgetting", &columns);
    let members = hashes(22, 0, KEYS);
    let (mut lines, mut worst) = (Vec::new(), 0f64);
    for kind in [Kind::Broom, Kind::AdaptiveCuckoo] {
        let mut points = Vec::new();
        for part in [0.01, 0.03, 0.1, 0.3, 1.0, 3.0] {
            let mut guarded = Guarded::new(kind, members.clone(), EPS)?;
            let bits = form(guarded.bits_a_key());
            let Mixed { new, old, .. } =
                half_repeated(&mut guarded, (KEYS as f64 * part) as usize, EPS)?;
            sheet.row(&[&kind, &bits, &part, &form(new), &form(old)]);
            points.push((f64::log10(part), old));
            if kind == Kind::AdaptiveCuckoo {
                worst = worst.max(f64::midpoint(new, old));
            }
        }
        lines.push(Line::measured(kind.to_string(), points));
    }
    let title = "Half of the queries repeat what got in";
    let x = "strangers that got in, a key, as log10";
    sheet.finish(title, x, "repeated ones let in / eps", true, lines)?;
    let statement = "not adaptive: overall > eps for some set";
    claims.add("50 % replay; adaptive_cuckoo", statement, form(worst), worst > 1.0);
    Ok(())
}

/// From a hundredth to nearly all of the queries repeat something of a set that got in before; and
/// somebody who repeats each stranger for as long as it gets in.
pub(crate) fn shares(claims: &mut Claims) -> Result<()> {
    const AGAIN: u64 = 16;
    let columns =
        ["filter", "repeated %", "sweeps", "overall / eps", "new / eps", "repeated / eps"];
    let mut sheet = Sheet::new("adaptive", "shares", &columns);
    let members = hashes(26, 0, KEYS);
    let mut lines = Vec::new();
    for kind in KINDS {
        let (mut points, mut worst, mut within) = (Vec::new(), 0f64, true);
        for percent in [1, 10, 50, 90, 99] {
            let mut guarded = Guarded::new(kind, members.clone(), POOR)?;
            let (set, mut number) = got_in(&mut guarded, 26, KEYS / 10)?;
            let begin = guarded.counts.sweeps;
            let mut random = Random(13);
            // Asked and let in: new ones, repeated ones.
            let mut counts = [[0u64; 2]; 2];
            for _ in 0..(4.0 * KEYS as f64 / POOR) as u64 {
                let repeats = random.below(100) < percent;
                let x = if repeats {
                    set[random.below(set.len() as u64) as usize]
                } else {
                    number += 1;
                    stranger(26, number)
                };
                counts[usize::from(repeats)][0] += 1;
                counts[usize::from(repeats)][1] += u64::from(guarded.ask(x)?);
            }
            let rate = |[asked, passed]: [u64; 2]| passed as f64 / asked.max(1) as f64 / POOR;
            let [new, old] = counts;
            let all = [new[0] + old[0], new[1] + old[1]];
            worst = worst.max(rate(all));
            within &= rate(all) <= 1.0 + 4.0 / (all[0] as f64 * POOR).sqrt();
            let sweeps = guarded.counts.sweeps - begin;
            let [overall, new, old] = &[all, new, old].map(|counts| form(rate(counts)));
            sheet.row(&[&kind, &percent, &sweeps, overall, new, old]);
            points.push((percent as f64, rate(all)));
        }
        lines.push(Line::measured(kind.to_string(), points));
        if ADAPTIVE.contains(&kind) {
            let claim = format!("1 to 99 % replay; {kind}");
            claims.add(claim, "overall <= eps (4 sigma)", form(worst), within);
        }
        let mut guarded = Guarded::new(kind, members.clone(), POOR)?;
        let (mut first, mut again) = (0u64, 0u64);
        for number in 0..(KEYS as f64 / POOR) as u64 {
            let x = stranger(27, number);
            if guarded.ask(x)? {
                first += 1;
                while again < first * AGAIN && guarded.ask(x)? {
                    again += 1;
                }
            }
        }
        let share = again as f64 / first as f64;
        if ADAPTIVE.contains(&kind) {
            let claim = format!("each repeated while it gets in; {kind}");
            claims.add(claim, "<= 0.01 more each", form(share), share <= 0.01);
        } else {
            let claim = format!("each repeated while it gets in; {kind}; static control");
            claims.add(claim, "every one 16 times", form(share), share >= AGAIN as f64);
        }
    }
    let title = "Queries that repeat one of 1000 strangers which got in, 10^4 keys, 1/32";
    sheet.finish(title, "% of the queries", "let in / eps", true, lines)
}

/// So many strangers that got in, and how many were asked for.
fn got_in(guarded: &mut Guarded, salt: u64, count: u64) -> Result<(Vec<KeyHash>, u64)> {
    let (mut set, mut number) = (Vec::new(), 0);
    while (set.len() as u64) < count {
        number += 1;
        if guarded.ask(stranger(salt, number))? {
            set.push(stranger(salt, number));
        }
    }
    Ok((set, number))
}

/// What becomes of members between two passes of the attack set.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    /// They get other values: a filter is not told.
    Updated,
    /// They are taken out and put in again.
    Reinserted,
    /// Others come in their place.
    Replaced,
    /// For each stranger the very member that it was taken for is taken out and put in again.
    Aimed,
}

/// Strangers that got in are repeated, and between two passes members are taken out and put in again:
/// with a member's fingerprint goes what was learnt of its neighbours.
pub(crate) fn churn(claims: &mut Claims) -> Result<()> {
    const PASSES: u64 = 16;
    let columns = [
        "filter",
        "members are",
        "of n a pass",
        "strangers",
        "changes",
        "asked",
        "let in",
        "let in / eps",
        "let in a change",
    ];
    let mut sheet = Sheet::new("adaptive", "churn", &columns);
    let members = hashes(28, 0, KEYS);
    let mut lines = Vec::new();
    for kind in [Kind::Broom, Kind::AdaptiveQuotient] {
        let (mut updated, mut worst, mut aimed) = (0, 0f64, 0.0);
        for (change, name) in [
            (Change::Updated, "updated"),
            (Change::Reinserted, "put in again"),
            (Change::Replaced, "replaced"),
            (Change::Aimed, "put in again by aim"),
        ] {
            let mut points = Vec::new();
            let shares: &[f64] = match change {
                Change::Aimed => &[0.01],
                Change::Updated => &[1.0],
                _ => &[0.001, 0.01, 0.1, 1.0],
            };
            for share in shares {
                let mut guarded = Guarded::new(kind, members.clone(), POOR)?;
                let (set, culprits) = taken_for(&mut guarded, KEYS / 100)?;
                // Passes in quiet, until none gets in any more.
                for x in std::iter::repeat_n(&set, 8).flatten() {
                    guarded.ask(*x)?;
                }
                let (mut random, mut next, mut changes) = (Random(15), KEYS, 0);
                let before = guarded.counts;
                for _ in 0..PASSES {
                    let count = match change {
                        Change::Aimed => culprits.len() as u64,
                        _ => (KEYS as f64 * share) as u64,
                    };
                    for number in 0..count {
                        let at = random.below(KEYS) as usize;
                        match change {
                            Change::Updated => {}
                            Change::Reinserted => guarded.reinsert(guarded.store.0[at])?,
                            Change::Replaced => guarded.replace(at, hashes(28, next, 1)[0])?,
                            Change::Aimed => guarded.reinsert(culprits[number as usize])?,
                        }
                        next += 1;
                    }
                    changes += count;
                    for x in &set {
                        guarded.ask(*x)?;
                    }
                }
                let (asked, passed) =
                    (guarded.counts.asked - before.asked, guarded.counts.passed - before.passed);
                let rate = guarded.counts.since(&before, POOR);
                let [a_pass, rate, gain] =
                    &[*share, rate, passed as f64 / changes as f64].map(form);
                let strangers = set.len();
                let row: [&dyn std::fmt::Display; 9] =
                    [&kind, &name, a_pass, &strangers, &changes, &asked, &passed, rate, gain];
                sheet.row(&row);
                points.push((share.log10(), passed as f64 / asked as f64 / POOR));
                match change {
                    Change::Updated => updated = passed,
                    _ => worst = worst.max(passed as f64 / (changes as f64 + asked as f64 * POOR)),
                }
                if change == Change::Aimed {
                    aimed = passed as f64 / changes as f64;
                }
                let denied = guarded.denied();
                anyhow::ensure!(denied == 0, "{denied} members are denied");
            }
            if points.len() > 1 {
                lines.push(Line::measured(format!("{kind}: {name}"), points));
            }
        }
        let claim = |what: &str| format!("churn; {kind}; {what}");
        claims.add(claim("updated in place"), "none gets in", updated, updated == 0);
        let bound = "<= 1 of eps queries + changes";
        claims.add(claim("put in again or replaced"), bound, form(worst), worst <= 1.0);
        let gain = "<= 1 a change";
        claims.add(claim("put in again by aim"), gain, form(aimed), aimed <= 1.0);
    }
    let title = "100 strangers that got in, repeated while members come and go, 10^4 keys, 1/32";
    sheet.finish(title, "members changed a pass, of n, as log10", "let in / eps", true, lines)
}

/// So many strangers that got in, and of each a member that it was taken for: without that member it
/// would have been denied.
fn taken_for(guarded: &mut Guarded, count: u64) -> Result<(Vec<KeyHash>, Vec<KeyHash>)> {
    let (mut set, mut culprits) = (Vec::new(), Vec::new());
    for number in 0.. {
        if set.len() as u64 == count {
            break;
        }
        let x = stranger(28, number);
        if !guarded.filter.contains(x) {
            continue;
        }
        let range = guarded.filter.suspects(x)?;
        for y in guarded.store.members(&range) {
            let mut without = guarded.filter.clone();
            if without.remove(*y)? && !without.contains(x) {
                culprits.push(*y);
                set.push(x);
                break;
            }
        }
        guarded.ask(x)?;
    }
    Ok((set, culprits))
}

/// Strangers that a static filter let in last, 8 to a set, the latest first.
struct Cache {
    sets: Vec<[u64; 8]>,
}

impl Cache {
    /// Whether it was there; now it is.
    fn touch(&mut self, x: KeyHash) -> bool {
        let at = ((u128::from(x.lo) * self.sets.len() as u128) >> 64) as usize;
        let set = &mut self.sets[at];
        let place = set.iter().position(|digest| *digest == x.hi);
        set[..=place.unwrap_or(7)].rotate_right(1);
        set[0] = x.hi;
        place.is_some()
    }
}

/// False positives of ordinary streams, against static filters with a cache in the same memory.
pub(crate) fn streams() -> Result<()> {
    const EPS: f64 = 1.0 / 256.0;
    // Nine tenths of a power of two: what a quotient filter likes best.
    const MEMBERS: u64 = 14_740;
    const QUERIES: u64 = 6_000_000;
    let columns =
        ["strangers a key", "exponent", "filter", "bits a key", "cached", "let in per million"];
    let mut sheet = Sheet::new("adaptive", "streams", &columns);
    let members = hashes(23, 0, MEMBERS);
    let bytes = Guarded::new(Kind::Broom, members.clone(), EPS)?.filter.figures().bytes;
    let kinds = [Kind::Broom, Kind::AdaptiveQuotient, Kind::Quotient, Kind::CountingQuotient];
    let mut lines = Vec::new();
    for (many, exponents) in
        [(32, &[0.0, 0.4, 0.8, 1.0, 1.2, 1.5][..]), (256, &[0.0, 0.8, 1.2, 1.5])]
    {
        let universe: Vec<KeyHash> = hashes(23, STRANGERS, many * MEMBERS);
        let mut points = vec![Vec::new(); kinds.len()];
        for exponent in exponents {
            let mut sum = 0.0;
            let weight = |rank: u64| {
                sum += (rank as f64).powf(-exponent);
                sum
            };
            let sums: Vec<f64> = (1..=many * MEMBERS).map(weight).collect();
            for (kind, points) in kinds.iter().zip(&mut points) {
                let adapts = kind.can(Capability::Adapt);
                // At least 0.4 bits a key for the cache; it gets what the filter leaves, too.
                let sizing = match adapts {
                    true => Sizing::fpr(EPS),
                    false => Sizing::bytes(bytes - MEMBERS / 20),
                };
                let sizing = sizing.capacity(MEMBERS);
                let mut guarded = Guarded::fitting(*kind, &sizing, members.clone())?;
                let spare = bytes.saturating_sub(guarded.filter.figures().bytes).max(64);
                let mut cache = Cache { sets: vec![[0; 8]; spare as usize / 64] };
                let (mut random, mut let_in) = (Random(9), 0u64);
                for _ in 0..QUERIES {
                    let point = random.share() * sum;
                    let at = sums.partition_point(|to| *to < point).min(universe.len() - 1);
                    let x = universe[at];
                    let_in += u64::from(guarded.ask(x)? && (adapts || !cache.touch(x)));
                }
                let rate = let_in as f64 * 1e6 / QUERIES as f64;
                let cached = if adapts { 0 } else { cache.sets.len() * 8 };
                let all = guarded.filter.figures().bytes + cached as u64 * 8;
                let bits = form(all as f64 * 8.0 / MEMBERS as f64);
                sheet.row(&[&many, exponent, &label(*kind), &bits, &cached, &form(rate)]);
                points.push((*exponent, rate));
            }
        }
        for (kind, points) in kinds.iter().zip(points) {
            lines.push(Line::measured(format!("{}, {many} n", label(*kind)), points));
        }
    }
    let title = "Streams by Zipf's law, in the memory of a broom at 1/256";
    sheet.finish(title, "exponent", "let in per million", true, lines)
}

fn label(kind: Kind) -> String {
    let cache = if kind.can(Capability::Adapt) { "" } else { " + cache" };
    format!("{kind}{cache}")
}

/// Members come and go, strangers attack, the filter is swept, moved to other sizes, and goes through
/// files: so many members are asked for.
pub(crate) fn soak(lookups: u64, claims: &mut Claims) -> Result<()> {
    let columns = ["filter", "lookups", "denied", "sweeps", "rehashes", "moves", "files"];
    let mut sheet = Sheet::new("adaptive", "soak", &columns);
    for kind in ADAPTIVE {
        // Sizes to move between; only a broom can.
        let sizes = if kind == Kind::Broom { vec![10_000, 20_000, 40_000] } else { vec![20_000] };
        let sizing = Sizing::fpr(POOR).capacity(sizes[0]);
        let mut guarded = Guarded::fitting(kind, &sizing, hashes(24, 0, sizes[0] * 9 / 10))?;
        let (mut random, mut next, mut number) = (Random(11), 1 << 30, 0);
        let (mut asked, mut denied, mut moves, mut files) = (0u64, 0u64, 0u64, 0u64);
        let (mut round, mut reported) = (0u64, 0);
        while asked < lookups / 3 {
            round += 1;
            // Sixteen rounds in which it gains, sixteen in which it loses; a broom moves meanwhile.
            let loses = round & 16 != 0;
            if kind.can(Capability::Remove) {
                for _ in 0..guarded.store.0.len() / if loses { 10 } else { 50 } {
                    let at = random.below(guarded.store.0.len() as u64) as usize;
                    let key = guarded.store.0.remove(at);
                    denied += u64::from(!guarded.filter.remove(key)?);
                }
            }
            let room = guarded.filter.figures().keys - guarded.filter.len();
            let room = if loses { 0 } else { room.min(guarded.store.0.len() as u64 / 6) };
            for key in hashes(24, next, room) {
                guarded.filter.insert(key)?;
                let at = guarded.store.0.partition_point(|other| other.hi < key.hi);
                guarded.store.0.insert(at, key);
            }
            next += 1 << 20;
            for _ in 0..20_000 {
                number += 1;
                guarded.ask(stranger(24, number))?;
            }
            if round.is_multiple_of(8) {
                moves +=
                    u64::from(resize(&mut guarded, sizes[random.below(3) as usize % sizes.len()])?);
            }
            if round.is_multiple_of(5) {
                let filter = std::mem::replace(&mut guarded.filter, tiny()?);
                guarded.filter = through_a_file(filter)?;
                files += 1;
            }
            // The members that the filter has now are asked for some times, a few strangers between.
            for _ in 0..4 {
                denied += guarded.denied();
                asked += 2 * guarded.store.0.len() as u64;
                guarded.ask(stranger(25, number + asked))?;
            }
            if asked / 50_000_000 > reported {
                reported = asked / 50_000_000;
                println!("{kind}: {asked} members asked for, {denied} denied");
            }
        }
        let counts = guarded.counts;
        sheet.row(&[&kind, &asked, &denied, &counts.sweeps, &counts.rehashed, &moves, &files]);
        let what = format!("no false negatives; {kind}");
        let measured = format!("{denied} of {asked}");
        claims.add(what, "none through sweeps and files", measured, denied == 0);
    }
    sheet.finish("Members denied", "", "", false, Vec::new())
}

fn tiny() -> Result<AnyFilter> {
    Ok(Guarded::new(Kind::Bloom, Vec::new(), 0.5)?.filter)
}

/// Begins to move a broom to another size if it has no more keys than that; whether it does.
fn resize(guarded: &mut Guarded, keys: u64) -> Result<bool> {
    let AnyFilter::Broom(broom) = &mut guarded.filter else { return Ok(false) };
    if broom.is_moving() || broom.len() > keys * 9 / 10 {
        return Ok(false);
    }
    broom.resize(BroomShape::fit(keys, POOR)?)?;
    // A third of the way at once, the rest with the repairs to come.
    for _ in 0..broom.shape().bins() / 3 {
        guarded.renew()?;
    }
    Ok(true)
}
