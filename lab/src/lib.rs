//! Tables and figures of the papers, made anew.
