//! The check finds planted diagnostics, and no others.

use std::fs;

use stile_structure::SILENT_PATHS;

#[test]
fn a_diagnostic_is_found_where_vcpus_run_and_allowed_where_vms_end() {
    let root = tempfile::tempdir().expect("a folder");
    let call = "fn f() {\n    tracing::trace!(\"exit\");\n}\n";
    for file in ["sched/src/policy/next.rs", "vmm/machine/src/vm/status.rs", "vmm/src/cli.rs", "vmm/machine/src/run.rs"]
    {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().expect("a path in a folder")).expect("a folder");
        fs::write(path, call).expect("a file");
    }
    fs::write(root.path().join("sched/src/lib.rs"), "// No tracing::trace! here.\n").expect("a file");
    let found = (SILENT_PATHS.check)(root.path()).expect("sources that can be read");
    assert_eq!(found, ["sched/src/policy/next.rs:2 uses tracing", "vmm/machine/src/run.rs:2 uses tracing"]);
}
