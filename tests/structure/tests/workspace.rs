//! This workspace keeps the rules.

use std::path::Path;

use stile_structure::{COMMENT_WIDTH, FILE_CIRCLES, FOLDER_CIRCLES, NAMED_TESTS, README_LENGTH, Rule, SILENT_PATHS};

/// Fails with the breaks of a rule in this workspace.
fn assert_kept(rule: Rule) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this crate is in tests/ of the root");
    let broken = (rule.check)(root).expect("sources that can be read");
    assert!(broken.is_empty(), "{}: {} breaks\n{}", rule.name, broken.len(), broken.join("\n"));
}

#[test]
fn no_folders_form_a_circle() {
    assert_kept(FOLDER_CIRCLES);
}

#[test]
fn no_circle_has_more_than_three_files() {
    assert_kept(FILE_CIRCLES);
}

#[test]
fn the_readme_is_short() {
    assert_kept(README_LENGTH);
}

#[test]
fn no_comment_line_is_wider_than_code() {
    assert_kept(COMMENT_WIDTH);
}

#[test]
fn no_decision_and_no_exit_passes_a_diagnostic() {
    assert_kept(SILENT_PATHS);
}

#[test]
fn the_page_on_security_names_tests_that_there_are() {
    assert_kept(NAMED_TESTS);
}
