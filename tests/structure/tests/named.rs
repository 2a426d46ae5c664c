//! The check finds names of tests that there are not, and no others.

use std::fs;

use stile_structure::NAMED_TESTS;

#[test]
fn a_name_without_its_test_is_found_and_other_quotes_are_not_taken_for_names() {
    let root = tempfile::tempdir().expect("a folder");
    for folder in ["docs", "src"] {
        fs::create_dir(root.path().join(folder)).expect("a folder");
    }
    let page = "`a_guest_that_floods` `a_guest_that_is_gone` `a_guest_that_fl...` `a_guest_that_s...`\n```\nerror: `x`\n```\n\
                `src/tests.rs` `src/gone.rs` `foreign_source` `on_starvation = \"a_b_c_d\"`\n";
    fs::write(root.path().join("docs/security.md"), page).expect("a file");
    fs::write(root.path().join("src/tests.rs"), "fn a_guest_that_floods() {}\n").expect("a file");
    let found = (NAMED_TESTS.check)(root.path()).expect("sources that can be read");
    let names = ["a_guest_that_is_gone", "a_guest_that_s...", "src/gone.rs"];
    assert_eq!(found, names.map(|name| format!("docs/security.md names {name}")));
}
