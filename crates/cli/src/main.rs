//! The command `tamis`.

fn main() {}
