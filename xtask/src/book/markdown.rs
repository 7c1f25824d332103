//! What the book needs of Markdown: fenced blocks, headings, and the targets of links.

/// A fenced block of a page.
#[derive(Debug, PartialEq)]
pub(crate) struct Block<'a> {
    /// The number of its first line, from 1 on.
    pub(crate) line: usize,
    /// The text after the opening fence: the language, and words about it.
    pub(crate) info: &'a str,
}

/// A line of a page, with its end of line.
enum Line<'a> {
    /// An opening fence, with the text after it.
    Open(&'a str),
    /// A line of a block, or its closing fence.
    Code,
    Prose,
}

/// Tells lines of prose from lines of fenced blocks.
#[derive(Default)]
struct Scanner {
    in_block: bool,
}

impl Scanner {
    fn classify<'a>(&mut self, line: &'a str) -> Line<'a> {
        match (line.trim_start().strip_prefix("```"), self.in_block) {
            (Some(info), false) => {
                self.in_block = true;
                Line::Open(info.trim())
            }
            (Some(_), true) => {
                self.in_block = false;
                Line::Code
            }
            (None, true) => Line::Code,
            (None, false) => Line::Prose,
        }
    }
}

/// Returns the fenced blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut scanner = Scanner::default();
    let classified = page.lines().enumerate().map(|(i, line)| (i + 1, scanner.classify(line)));
    classified
        .filter_map(|(line, class)| match class {
            Line::Open(info) => Some(Block { line, info }),
            Line::Code | Line::Prose => None,
        })
        .collect()
}

/// Returns the numbers of the first lines of blocks that are code by their indentation.
pub(crate) fn indented_blocks(page: &str) -> Vec<usize> {
    let mut scanner = Scanner::default();
    let mut after_blank = true;
    let mut in_list = false;
    let mut found = Vec::new();
    for (i, line) in page.lines().enumerate() {
        let prose = matches!(scanner.classify(line), Line::Prose);
        let text = line.trim_start();
        let indented = line.starts_with("    ") && !text.is_empty();
        if prose && indented && after_blank && !in_list {
            found.push(i + 1);
        }
        if prose && !text.is_empty() && !line.starts_with(' ') {
            in_list =
                text.starts_with(['*', '-']) || text.starts_with(|c: char| c.is_ascii_digit());
        }
        after_blank = text.is_empty();
    }
    found
}

/// Returns the page with `map` applied to each stretch of prose.
pub(crate) fn map_prose(page: &str, mut map: impl FnMut(&str) -> String) -> String {
    let mut scanner = Scanner::default();
    let (mut out, mut prose) = (String::new(), String::new());
    for line in page.split_inclusive('\n') {
        if matches!(scanner.classify(line), Line::Prose) {
            prose += line;
        } else {
            out += &map(&std::mem::take(&mut prose));
            out += line;
        }
    }
    out + &map(&prose)
}

/// Returns the page with `map` applied to the target of each link and image.
pub(crate) fn map_links(page: &str, mut map: impl FnMut(&str) -> String) -> String {
    map_prose(page, |prose| {
        let mut out = String::new();
        let mut rest = prose;
        while let Some((before, after)) = split_at_target(rest) {
            let (target, after) = after.split_once(')').unwrap_or((after, ""));
            out += before;
            out += &map(target);
            out.push(')');
            rest = after;
        }
        out + rest
    })
}

/// Splits after the next `](` that is not in a code span.
fn split_at_target(prose: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    loop {
        let rest = &prose[at..];
        let target = rest.find("](")?;
        match rest.find('`').filter(|tick| *tick < target) {
            Some(tick) => {
                let ticks = rest[tick..].len() - rest[tick..].trim_start_matches('`').len();
                let inside = tick + ticks;
                let close = rest[inside..].find(&rest[tick..inside]);
                at += close.map_or(inside, |close| inside + close + ticks);
            }
            None => return Some(prose.split_at(at + target + 2)),
        }
    }
}

/// Returns the targets of all links and images.
pub(crate) fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    map_links(page, |target| {
        found.push(target.to_owned());
        target.to_owned()
    });
    found
}

/// Returns the text of the first heading.
pub(crate) fn title(page: &str) -> Option<&str> {
    page.lines().find_map(|line| line.strip_prefix("# "))
}

/// Returns the anchors of a page's headings.
pub(crate) fn anchors(page: &str) -> Vec<String> {
    let mut scanner = Scanner::default();
    let prose = page.lines().filter(|line| matches!(scanner.classify(line), Line::Prose));
    let headings = prose.filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// Returns the anchor of a heading: its letters, digits, hyphens and underscores, with hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A `b` page\n[one](a.md) and `[no](b.md)` and [`two`](c.md#d)\n\n\
                        ```rust,no_run\n[not](x.md)\n# hidden\n```\n\n    code\n\n* item\n\n    more\n";

    #[test]
    fn links_in_code_are_not_links() {
        assert_eq!(links(PAGE), ["a.md", "c.md#d"]);
        assert_eq!(links("``a ` [b](c)`` [d](e)"), ["e"]);
        assert_eq!(map_links("[a](b) [c](d)", str::to_uppercase), "[a](B) [c](D)");
    }

    #[test]
    fn blocks_have_a_line_and_a_language() {
        assert_eq!(blocks(PAGE), [Block { line: 4, info: "rust,no_run" }]);
        assert_eq!(indented_blocks(PAGE), [9]);
    }

    #[test]
    fn headings_have_anchors() {
        assert_eq!(title(PAGE), Some("A `b` page"));
        assert_eq!(anchors(PAGE), ["a-b-page"]);
        assert_eq!(
            anchor("10 `tinyset`, 11 `removable_tinyset`"),
            "10-tinyset-11-removable_tinyset"
        );
    }
}
