//! The checks find planted circles, and no others.

use std::fs;

use stile_structure::{FILE_CIRCLES, FOLDER_CIRCLES, Rule};

/// What each check of circles finds in a crate with these files below `src`: between folders, between files.
fn circles(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let root = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().expect("a path in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    write("Cargo.toml", "[package]\nname = \"planted\"\nedition = \"2024\"\n[workspace]\n");
    files.iter().for_each(|(name, text)| write(&format!("src/{name}"), text));
    let check = |rule: Rule| (rule.check)(root.path()).expect("sources that can be read");
    (check(FOLDER_CIRCLES), check(FILE_CIRCLES))
}

/// Two folders `a` and `b`. Their files `x` and `y` have the given text.
fn folders(x: &str, y: &str) -> (Vec<String>, Vec<String>) {
    circles(&[
        ("lib.rs", "mod a; mod b; pub use b::y::Y;"),
        ("a.rs", "pub mod x;"),
        ("a/x.rs", x),
        ("b/mod.rs", "pub mod y;"),
        ("b/y.rs", y),
    ])
}

/// Four files: `a` names `b`, `b` names `c`, `c` names `d`, and `d` has the given text.
fn ring(last: &str) -> (Vec<String>, Vec<String>) {
    circles(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "use super::c; pub struct B(c::C);"),
        ("c.rs", "pub struct C;\nfn f() { vec![crate::d::D]; }"),
        ("d.rs", last),
    ])
}

#[test]
fn folders_that_use_each_other_are_a_circle() {
    let (folders, files) = folders("use crate::b::y::Y;\npub struct X;", "pub struct Y;\nfn f(_: crate::a::x::X) {}");
    let [circle] = folders.as_slice() else { panic!("{folders:?}") };
    assert!(circle.contains("a -> b -> a"), "{circle}");
    assert!(circle.contains("src/a/x.rs:1 -> src/b/y.rs (crate::b::y::Y)"), "{circle}");
    assert!(circle.contains("src/b/y.rs:2 -> src/a/x.rs (crate::a::x::X)"), "{circle}");
    assert!(files.is_empty(), "two files: {files:?}");
}

#[test]
fn folders_are_in_a_circle_through_a_file_beside_them() {
    let (folders, _) = circles(&[
        ("lib.rs", "mod a; mod b; mod between;"),
        ("a.rs", "mod x; pub struct A;"),
        ("a/x.rs", "use crate::between::Between;"),
        ("between.rs", "use crate::b::B; pub struct Between;"),
        ("b.rs", "mod y; pub struct B;"),
        ("b/y.rs", "use crate::a::A;"),
    ]);
    let [circle] = folders.as_slice() else { panic!("{folders:?}") };
    assert!(circle.contains("a -> between -> b -> a"), "{circle}");
}

#[test]
fn an_arrow_through_a_re_export_goes_to_the_file_that_defines_the_item() {
    let (folders, _) = folders("use crate::Y;\npub struct X;", "pub struct Y;\nuse crate::a::x::*;");
    let [circle] = folders.as_slice() else { panic!("{folders:?}") };
    assert!(circle.contains("src/a/x.rs:1 -> src/b/y.rs (crate::Y)"), "{circle}");
}

#[test]
fn a_parent_may_use_its_modules_and_they_its_items() {
    let (folders, files) = circles(&[
        ("lib.rs", "mod a; mod b; pub struct Root; fn f(_: a::A, _: b::B) {}"),
        ("a.rs", "mod x; pub use x::A;"),
        ("a/x.rs", "pub struct A(crate::Root);"),
        ("b.rs", "mod y; pub use y::B;"),
        ("b/y.rs", "pub struct B(crate::Root);"),
    ]);
    assert!(folders.is_empty() && files.is_empty(), "{folders:?} {files:?}");
}

#[test]
fn four_files_in_a_circle_are_too_many() {
    let (folders, files) = ring("use crate::a::A; pub struct D;");
    let [circle] = files.as_slice() else { panic!("{files:?}") };
    assert!(circle.starts_with("4 files"), "{circle}");
    assert!(circle.contains("src/c.rs:2 -> src/d.rs (crate::d::D)"), "{circle}");
    assert!(folders.is_empty(), "{folders:?}");
}

#[test]
fn three_files_in_a_circle_are_allowed() {
    let (_, files) = circles(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::a::A; pub struct C;"),
    ]);
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn what_only_tests_and_docs_use_is_no_arrow() {
    let (_, files) = ring("/// [`crate::a::A`]\npub struct D; #[cfg(all(test, unix))] mod tests { use crate::a::A; }");
    assert!(files.is_empty(), "{files:?}");
    let (_, files) = ring("#[cfg(not(test))] use crate::a::A; pub struct D;");
    assert_eq!(files.len(), 1, "compiled outside tests: {files:?}");
}

#[test]
fn strings_in_attributes_name_items() {
    let (_, files) = ring("#[derive(Default)] #[serde(default = \"crate::a::A::new\")] pub struct D;");
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn what_another_crate_or_a_macro_defines_belongs_to_the_file_that_imports_or_calls_it() {
    let imported = "pub use std::sync::atomic::Ordering;\nuse crate::a::x::X;";
    assert_eq!(folders("use crate::b::y::Ordering; pub struct X;", imported).0.len(), 1);
    let made = "make!(Y);\nuse crate::a::x::X;";
    assert_eq!(folders("use crate::b::y::Y; pub struct X;", made).0.len(), 1);
}
