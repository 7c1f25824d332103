//! Filters as text and as HTML for notebooks.

use tamis::{AnyFilter, Capability, Keyed};

/// Returns a number of bytes with a unit.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KB", "MB", "GB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.3} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.3} TB")
}

/// Returns a rate in percent.
fn rate(fpr: f64) -> String {
    let percent = fpr * 100.0;
    if percent == 0.0 || percent >= 0.001 {
        format!("{percent:.3} %")
    } else {
        format!("{percent:.1e} %")
    }
}

/// Returns the number of keys, with the capacity if the filter has a fixed one.
fn load(keyed: &Keyed<AnyFilter>) -> String {
    let kind = keyed.kind();
    match kind.can(Capability::Static) || kind.can(Capability::Grow) {
        true => format!("{} keys", keyed.len()),
        false => format!("{} of {} keys", keyed.len(), keyed.capacity()),
    }
}

/// Returns the kind, the load, the size and the rate.
pub(crate) fn text(class: &str, keyed: &Keyed<AnyFilter>) -> String {
    let (kind, load) = (keyed.kind(), load(keyed));
    let (size, rate) = (size(keyed.bytes()), rate(keyed.fpr()));
    format!("<tamis.{class} {kind}: {load}, {size}, false positive rate {rate}>")
}

/// Returns the same as a table, with a bar that shows the load.
pub(crate) fn html(class: &str, keyed: &Keyed<AnyFilter>) -> String {
    let share = (keyed.len() as f64 / keyed.capacity().max(1) as f64).clamp(0.0, 1.0);
    let filled = (share * 200.0).round();
    let rows = [
        ("kind", keyed.kind().to_string()),
        ("load", load(keyed)),
        ("size", size(keyed.bytes())),
        ("bits per key", format!("{:.2}", keyed.bytes() as f64 * 8.0 / keyed.len().max(1) as f64)),
        ("false positive rate", rate(keyed.fpr())),
        ("keys", keyed.key_forms().to_string()),
    ];
    let rows = rows.map(|(name, value)| format!("<tr><th>{name}</th><td>{value}</td></tr>"));
    format!(
        "<table><caption>tamis.{class}</caption>{}</table>\
         <svg width=\"202\" height=\"12\" role=\"img\" aria-label=\"load {:.0} %\">\
         <rect x=\"1\" y=\"1\" width=\"200\" height=\"10\" fill=\"none\" stroke=\"currentColor\"/>\
         <rect x=\"1\" y=\"1\" width=\"{filled}\" height=\"10\" fill=\"currentColor\"/></svg>",
        rows.concat(),
        share * 100.0,
    )
}
