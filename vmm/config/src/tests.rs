//! Whole files go in; configurations or messages come out.

mod properties;

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;
use stile_machine::linux::Interrupts;

const BUILTIN: &[&str] = &["hello", "netbench", "ticket"];

fn context() -> LoadContext<'static> {
    LoadContext { pcpus_available: [0, 1, 3].into_iter().collect(), builtin_names: BUILTIN, policy: None }
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse("conf/guests.toml", text, &context())
}

/// Each mistake in `text` as `line:column key: message (accepted)`.
fn mistakes(text: &str) -> Vec<String> {
    let error = parse(text).unwrap_err();
    let line = |problem: &Problem| {
        let message = problem.to_string().replace("conf/guests.toml:", "");
        format!("{message} ({})", problem.accepted().unwrap_or("-"))
    };
    error.problems().iter().map(line).collect()
}

/// A file with one valid VM, `lines` being added to it.
fn vm(lines: &str) -> String {
    format!("[[vm]]\nname = \"a\"\nimage = \"builtin:hello\"\n{lines}\n")
}

#[test]
fn smallest_file_gets_every_default() {
    let config = parse(&vm("")).unwrap();
    assert_eq!(config.host.pcpus, context().pcpus_available);
    assert_eq!(config.policy, PolicyConfig::default());
    let [vm] = config.vms.as_slice() else { panic!("one VM expected") };
    assert_eq!((vm.vcpus, vm.memory().bytes(), vm.nice, &vm.network, vm.count), (1, 16 << 20, 0, &None, 1));
    assert_eq!((vm.class, vm.cmdline.as_str()), (VmClass::Normal, ""));
    assert_eq!((vm.cap, vm.cap_period.duration()), (None, Duration::from_millis(100)));
}

#[test]
fn file_with_every_key_is_read() {
    let text = format!(
        "[host]\npcpus = [3, 0]\n[policy]\nalgorithm = \"host-noyield\"\nrr_interval = \"10ms\"\nyield = \"expire\"\n\
         affinity = false\n[policy.polite]\nforgive = false\nstrict = true\n[policy.goodness]\nyield_bounces = true\n\
         [policy.lock]\nadaptive = false\n{}",
        vm(
            "vcpus = 1024\nmemory = \"1G\"\nnice = -20\nclass = \"batch\"\ncmdline = \"a b\"\nnetwork = \"lan\"\ncount = 2"
        )
    );
    let config = parse(&text).unwrap();
    assert_eq!(config.host.pcpus.iter().collect::<Vec<_>>(), [0, 3]);
    assert_eq!(config.policy.algorithm, Algorithm::HostNoyield);
    assert_eq!(config.policy.rr_interval.duration(), Duration::from_millis(10));
    assert!(config.policy.polite.strict && config.policy.polite.directed && !config.policy.polite.forgive);
    assert!(config.policy.goodness.yield_bounces && !config.policy.goodness.yield_recalculates);
    assert!(config.policy.lock.lateral && !config.policy.lock.adaptive);
    assert_eq!(config.vms[0].class, VmClass::Batch);
    assert_eq!(config.vms[0].instance_names().collect::<Vec<_>>(), ["a-0", "a-1"]);
}

#[test]
fn an_unknown_key_or_algorithm_is_told_with_all_that_there_are() {
    let schema = schema();
    let keys = schema.as_value()["$defs"]["VmConfig"]["properties"].as_object().unwrap().keys().map(String::as_str);
    let expected =
        format!("4:1: vm[0].vcpu: unknown key `vcpu` (did you mean `vcpus`? accepted here: {})", list(keys.clone()));
    assert!(keys.clone().count() > 15 && keys.clone().any(|key| key == "nice"));
    assert_eq!(mistakes(&vm("vcpu = 2")), [expected]);
    let names = list(Algorithm::all().map(|row| row.name));
    assert!(names.starts_with("`rsdl`, `host`, `host-noyield`, `freelist`, `o1`"), "{names}");
    let expected = format!("5:13: policy.algorithm: `cfs` is not one of the choices (accepted: {names})");
    assert_eq!(mistakes(&vm("[policy]\nalgorithm = \"cfs\"")), [expected]);
}

#[test]
fn pcpus_are_a_list_or_a_text_in_the_kernels_notation() {
    let pcpus = |value: &str| parse(&vm(&format!("[host]\npcpus = {value}"))).unwrap().host.pcpus;
    assert_eq!(pcpus("\"0-1,3\""), pcpus("[3, 0, 1]"));
    assert_eq!(pcpus("\"1\""), pcpus("[1]"));
}

#[test]
fn a_policy_given_beside_the_file_takes_the_place_of_the_files_and_is_held_against_its_vms() {
    let text = vm("cap = 0.5\n[policy]\nalgorithm = \"host\"");
    let under = |policy: &str| {
        let context = LoadContext { policy: Some(policy.parse().unwrap()), ..context() };
        Config::parse("conf/guests.toml", &text, &context)
    };
    assert!(mistakes(&text)[0].contains("the policy `host` does not keep caps"));
    assert_eq!(under("o1").unwrap().policy.to_string(), "o1");
    assert!(under("host-noyield").unwrap_err().problems()[0].to_string().contains("`host-noyield` does not keep caps"));
}

#[test]
fn a_key_that_other_programs_call_otherwise_is_told_by_its_name_here() {
    for (line, told) in [
        ("weight = 200", "did you mean `nice`?"),
        ("cpus = 2", "did you mean `vcpus`?"),
        ("limit = 0.5", "did you mean `cap`?"),
        ("ram = \"1G\"", "did you mean `memory`?"),
        ("[policy]\nscheduler = \"rsdl\"", "did you mean `algorithm`?"),
    ] {
        let found = mistakes(&vm(line));
        assert!(found[0].contains(told), "{found:?}");
    }
}

#[test]
fn example_of_the_reference_page_is_valid() {
    parse(reference::EXAMPLE).unwrap();
}

#[test]
fn kvm_does_not_spin_for_halted_vcpus_while_they_outnumber_the_pcpus_unless_told_to() {
    let spins = |host: &str, vcpus: u32| parse(&vm(&format!("vcpus = {vcpus}\n[host]\n{host}"))).unwrap().halt_poll();
    assert_eq!((spins("pcpus = [0, 1]", 2), spins("pcpus = [0, 1]", 3)), (None, Some(Duration::ZERO)));
    let told = "pcpus = [0]\nhalt_poll = \"50us\"";
    assert_eq!((spins(told, 1), spins(told, 2)), (Some(Duration::from_micros(50)), Some(Duration::from_micros(50))));
}

#[test]
fn relative_image_path_starts_at_the_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("guest.elf"), "").unwrap();
    let file = dir.path().join("stile.toml");
    fs::write(&file, "[[vm]]\nname = \"a\"\nimage = \"guest.elf\"\n").unwrap();
    let config = Config::load(&file, &context()).unwrap();
    assert_eq!(config.vms[0].image, Some(ImageRef::Path(dir.path().join("guest.elf"))));
}

/// A folder with a kernel, two disks and a file that can be no disk, and the text of a configuration in it, `VMS` being
/// its VMs: each a line that a Linux guest of its own gets.
fn linux_guests(folder: &Path, vms: &[&str]) -> Result<Config, ConfigError> {
    fs::write(folder.join("vmlinuz"), "").unwrap();
    for (name, bytes) in [("a.img", 1024), ("b.img", 512), ("odd.img", 1000)] {
        fs::write(folder.join(name), vec![0; bytes]).unwrap();
    }
    let vm = |(n, line): (usize, &&str)| format!("[[vm]]\nname = \"vm{n}\"\nkernel = \"vmlinuz\"\n{line}\n");
    let text: String = vms.iter().enumerate().map(vm).collect();
    Config::parse(folder.join("stile.toml").to_str().unwrap(), &text, &context())
}

#[test]
fn devices_of_a_linux_guest_are_read_and_their_paths_start_at_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let first = "disk = \"a.img\"\nvsock = \"sock\"";
    let second = "disk = { path = \"b.img\", read_only = true }\ncount = 3";
    let config = linux_guests(folder.path(), &[first, second]).unwrap();
    let path = |name: &str| folder.path().join(name);
    let [first, second] = config.vms.as_slice() else { panic!("two VMs expected") };
    let (a, b) = (first.disk.as_ref().unwrap(), second.disk.as_ref().unwrap());
    assert_eq!((a.path.as_ref(), a.read_only), (path("a.img").as_path(), false));
    assert_eq!((b.path.as_ref(), b.read_only), (path("b.img").as_path(), true));
    assert_eq!(first.vsock.as_ref().unwrap().as_ref(), path("sock").as_path());
    assert_eq!((&first.tap, &second.tap), (&None, &None));
}

#[test]
fn devices_that_cannot_be_had_are_mistakes_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let cases = [
        ("disk = \"none.img\"", format!("the disk {} cannot be opened", path("none.img")), "truncate -s 1G"),
        ("disk = \".\"", "is neither a file nor a block device".to_owned(), "a raw disk image"),
        ("disk = \"odd.img\"", format!("the disk {} has 1000 bytes", path("odd.img")), "truncate -s %512"),
        ("disk = 1", "expected a string in quotes or a table, found an integer".to_owned(), "read_only = true"),
        ("disk = { read_only = true }", "the key `path` is missing".to_owned(), "a path"),
        ("disk = { path = \"a.img\", readonly = true }", "unknown key `readonly`".to_owned(), "`read_only`"),
        ("disk = \"a.img\"\ncount = 2", "cannot be had by several VMs".to_owned(), "read_only = true"),
        ("tap = \"stile-none\"", "the tap `stile-none` does not exist".to_owned(), "ip tuntap add dev stile-none"),
        ("tap = \"lo\"", "`lo` is a network interface, but not a tap".to_owned(), "take another name"),
        ("tap = \"a/b\"", "`a/b` is no name of a network interface".to_owned(), "1 to 15 characters"),
        ("vsock = \"none/sock\"", format!("cannot listen on {}", path("none/sock")), "the folder must exist"),
        ("vsock = \"a.img\"", format!("{} is there and is no socket", path("a.img")), "take another path"),
        ("vsock = \"sock\"\ncount = 2", "cannot be had by several VMs".to_owned(), "an entry for each VM"),
    ];
    for (line, wrong, help) in cases {
        let error = linux_guests(folder.path(), &[line]).unwrap_err();
        let [problem] = error.problems() else { panic!("{line}: {:?}", error.problems()) };
        assert!(problem.to_string().contains(&wrong), "{problem}");
        assert!(problem.accepted().unwrap_or_default().contains(help), "{line}: {:?}", problem.accepted());
    }
}

#[test]
fn a_device_that_another_vm_has_is_a_mistake_unless_both_only_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let (writes, reads) = ("disk = \"a.img\"", "disk = { path = \"a.img\", read_only = true }");
    linux_guests(folder.path(), &[reads, reads]).unwrap();
    for pair in [[writes, writes], [writes, reads], [reads, writes], ["vsock = \"sock\""; 2]] {
        let error = linux_guests(folder.path(), &pair).unwrap_err();
        let [problem] = error.problems() else { panic!("{pair:?}: {:?}", error.problems()) };
        assert!(problem.to_string().ends_with("is taken by vm[0]"), "{problem}");
        assert!(problem.key().starts_with("vm[1]."), "{problem}");
    }
}

#[test]
fn interrupt_controllers_are_where_the_key_says_or_else_where_the_mechanism_needs_them() {
    let cases = [
        ("rsdl:executors", "auto", Interrupts::User),
        ("rsdl:executors", "user", Interrupts::User),
        ("rsdl:leases", "auto", Interrupts::Kernel),
        ("rsdl:leases", "user", Interrupts::User),
        ("rsdl:leases", "kernel", Interrupts::Kernel),
        ("host", "auto", Interrupts::Kernel),
        ("host", "user", Interrupts::User),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (policy, interrupts, expected) in cases {
        let config = linux_guests(folder.path(), &[&format!("interrupts = \"{interrupts}\"")]).unwrap();
        assert_eq!(config.vms[0].interrupts.under(&policy.parse().unwrap()), expected, "{policy}, {interrupts}");
    }
}

#[test]
fn a_guest_that_waits_inside_the_kernel_decides_the_mechanism_and_others_leave_it_open() {
    let folder = tempfile::tempdir().unwrap();
    let (kernel, user, auto) = ("interrupts = \"kernel\"", "interrupts = \"user\"", "");
    for (vms, mechanism) in
        [([kernel, user], Mechanism::Leases), ([user, user], Mechanism::Auto), ([auto, user], Mechanism::Auto)]
    {
        assert_eq!(linux_guests(folder.path(), &vms).unwrap().policy.mechanism, mechanism, "{vms:?}");
    }
}

#[test]
fn features_of_the_host_are_hidden_unless_a_linux_guest_asks_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let shown = |line: &str| {
        let config = linux_guests(folder.path(), &[line]).unwrap();
        (config.vms[0].nested, config.vms[0].counters)
    };
    assert_eq!(shown(""), (false, false));
    assert_eq!((shown("nested = true"), shown("counters = true")), ((true, false), (false, true)));
    for key in ["nested", "counters"] {
        let [mistake] = &mistakes(&vm(&format!("{key} = true")))[..] else { panic!("one mistake expected") };
        assert!(mistake.contains(&format!("vm[0].{key}: only a Linux guest has `{key}`")), "{mistake}");
        parse(&vm(&format!("{key} = false"))).unwrap();
    }
}

#[test]
fn an_ipv4_address_belongs_to_one_vm_of_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let on = |network: &str, last: u8| format!("network = \"{network}\"\nipv4 = \"10.0.0.{last}\"");
    let load = |lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        linux_guests(folder.path(), &lines)
    };
    let config = load(&[on("a", 5), on("a", 6), on("b", 5)]).unwrap();
    assert_eq!(config.vms[1].ipv4.unwrap().get(), std::net::Ipv4Addr::new(10, 0, 0, 6));
    let wrong = |lines: &[String]| {
        let error = load(lines).unwrap_err();
        let [problem] = error.problems() else { panic!("{:?}", error.problems()) };
        problem.to_string()
    };
    let text = wrong(&[on("a", 5), on("b", 5), on("a", 5)]);
    assert!(text.ends_with("vm[2].ipv4: the address 10.0.0.5 on network `a` is taken by vm[0]"), "{text}");
    assert!(wrong(&[format!("{}\ncount = 2", on("a", 5))]).contains("cannot be had by several VMs"));
    assert!(wrong(&["ipv4 = \"10.0.0.5\"".to_owned()]).contains("an `ipv4` is on a network"));
    assert!(wrong(&["network = \"a\"\nipv4 = \"224.0.0.1\"".to_owned()]).contains("the address of no station"));
    assert!(mistakes(&vm(&on("a", 5)))[0].contains("only a Linux guest has an `ipv4`"));
    // A built-in guest has the address of its port, which is the third one here.
    let builtin = "\n[[vm]]\nname = \"b\"\nimage = \"builtin:hello\"\nnetwork = \"a\"";
    let linux = |last: u8| {
        format!("{}\ncount = 1\n[[vm]]\nname = \"c\"\nkernel = \"vmlinuz\"\nnetwork = \"a\"{builtin}", on("a", last))
    };
    load(&[linux(2)]).unwrap();
    let text = wrong(&[linux(3)]);
    assert!(text.contains("vm[2].network") && text.contains("10.0.0.3") && text.ends_with("taken by vm[0]"), "{text}");
}

#[test]
fn a_unikernel_has_none_of_the_devices_of_linux() {
    for (key, value) in [("disk", "\"/dev/null\""), ("tap", "\"tap0\""), ("vsock", "\"sock\"")] {
        let expected = format!(
            "4:{}: vm[0].{key}: only a Linux guest has a `{key}` (write `kernel` in place of `image`, or leave it out)",
            key.len() + 4
        );
        assert_eq!(mistakes(&vm(&format!("{key} = {value}"))), [expected]);
    }
}

#[test]
fn every_kind_of_mistake_gives_place_key_and_what_is_accepted() {
    let cases = [
        ("vcpus = 0", "4:9: vm[0].vcpus: 0 is out of range (accepted: 1 to 1024)"),
        ("vcpus = 2000", "4:9: vm[0].vcpus: 2000 is out of range (accepted: 1 to 1024)"),
        ("vcpus = 0x1000", "4:9: vm[0].vcpus: 0x1000 is out of range (accepted: 1 to 1024)"),
        (
            "vcpus = 99999999999999999999",
            "4:9: vm[0].vcpus: 99999999999999999999 is out of range (accepted: 1 to 1024)",
        ),
        ("vcpus = \"2\"", "4:9: vm[0].vcpus: expected a whole number, found a string (accepted: 1 to 1024)"),
        ("memory = \"0M\"", "4:10: vm[0].memory: `0M` is out of range (accepted: 4M to 64G)"),
        ("memory = 16", "4:10: vm[0].memory: expected a string in quotes, found an integer (accepted: 4M to 64G)"),
        ("nice = -21", "4:8: vm[0].nice: -21 is out of range (accepted: -20 to 19)"),
        (
            "class = \"realtime\"",
            "4:9: vm[0].class: `realtime` is not one of the choices (accepted: `normal`, `batch`, `idle` or `rt`)",
        ),
        (
            "class = 1",
            "4:9: vm[0].class: expected a string in quotes, found an integer (accepted: `normal`, `batch`, `idle` or `rt`)",
        ),
        (
            "network = true",
            "4:11: vm[0].network: expected a string in quotes, found a boolean (accepted: 1 to 64 of a-z 0-9 - _ .)",
        ),
        ("cap = 0.001", "4:7: vm[0].cap: 0.001 is out of range (accepted: 0.01 to 1024)"),
        ("cap = 0", "4:7: vm[0].cap: 0 is out of range (accepted: 0.01 to 1024)"),
        ("cap = nan", "4:7: vm[0].cap: nan is out of range (accepted: 0.01 to 1024)"),
        ("cap = \"half\"", "4:7: vm[0].cap: expected a number, found a string (accepted: 0.01 to 1024)"),
        ("cap = 2", "4:7: vm[0].cap: a cap of 2 is more than 1 vCPUs can use (accepted: 0.01 to 1, or more `vcpus`)"),
        (
            "cap = 0.1\nvcpus = 64",
            "4:7: vm[0].cap: a cap of 0.1 over 100ms leaves each of 64 vCPUs two turns of 78 us, and a turn takes 100 us \
             (accepted: a `cap_period` of 128ms or more, or a cap of 0.128 or more)",
        ),
        (
            "cap = 0.5\n[policy]\nalgorithm = \"host\"",
            "4:7: vm[0].cap: the policy `host` does not keep caps (leave it out, or take another `algorithm`; to cap all VMs \
             together, use the cgroup's cpu.max)",
        ),
        ("cap_period = \"5ms\"", "4:14: vm[0].cap_period: `5ms` is out of range (accepted: 10ms to 1s)"),
        ("count = 1001", "4:9: vm[0].count: 1001 is out of range (accepted: 1 to 1000)"),
        (
            "[policy]\nyield = \"expires\"",
            "5:9: policy.yield: `expires` is not one of the choices (did you mean `expire`? accepted: `polite`, \
             `expire` or `none`)",
        ),
        ("[policy]\nrr_interval = \"6s\"", "5:15: policy.rr_interval: `6s` is out of range (accepted: 100us to 5s)"),
        (
            "[policy.polite]\nstrict = 1",
            "5:10: policy.polite.strict: expected true or false, found an integer (accepted: true or false)",
        ),
        ("[host]\npcpus = []", "5:9: host.pcpus: the list is empty (give at least one item)"),
        ("[host]\npcpus = [0, 2]", "5:13: host.pcpus[1]: this process may not use a CPU 2 (accepted: 0-1,3)"),
        ("[host]\npcpus = \"0-2\"", "5:9: host.pcpus: this process may not use a CPU 2 (accepted: 0-1,3)"),
        (
            "[host]\npcpus = \"3-0\"",
            "5:9: host.pcpus: `3-0` is not a list of CPUs (accepted: numbers and ranges separated by commas, such as 0-3,8)",
        ),
        ("[host]\npcpus = [0, 0]", "5:13: host.pcpus[1]: 0 is listed twice (name each one once)"),
        (
            "[host]\npcpus = 2",
            "5:9: host.pcpus: expected an array or a string in quotes, found an integer (accepted: CPUs that the process may \
             use)",
        ),
    ];
    for (lines, expected) in cases {
        assert_eq!(mistakes(&vm(lines)), [expected]);
    }
}

#[test]
fn image_that_is_not_there_says_what_would_be_accepted() {
    assert_eq!(
        mistakes("[[vm]]\nname = \"a\"\nimage = \"builtin:helo\"\n"),
        ["3:9: vm[0].image: there is no built-in image `helo` (did you mean `builtin:hello`? accepted after builtin: \
          `hello`, `netbench` or `ticket`)"]
    );
    let missing = mistakes("[[vm]]\nname = \"a\"\nimage = \"no-such.elf\"\n");
    assert!(missing[0].starts_with("3:9: vm[0].image: the image conf/no-such.elf does not exist"), "{missing:?}");
    let directory = mistakes("[[vm]]\nname = \"a\"\nimage = \"/\"\n");
    assert!(directory[0].contains("the image / is not a file"), "{directory:?}");
}

#[test]
fn name_that_two_vms_share_is_found_also_among_copies() {
    let clash = format!("{}{}", vm("count = 3"), vm("").replace("\"a\"", "\"a-2\""));
    assert_eq!(
        mistakes(&clash),
        [
            "6:8: vm[1].name: the name `a-2` is taken by vm[0] (accepted: a name that no other VM has; copies of a VM are \
          called NAME-0, NAME-1 ...)"
        ]
    );
    assert_eq!(mistakes(&format!("{}{}", vm(""), vm(""))).len(), 1);
    assert!(parse(&format!("{}{}", vm("count = 3"), vm(""))).is_ok(), "a is not a-0");
}

#[test]
fn key_that_is_missing_is_named_at_its_table() {
    assert_eq!(
        mistakes("[[vm]]\nname = \"a\"\n"),
        [
            "1:1: vm[0].image: one of the keys `image` and `kernel` is needed (accepted: image = builtin:NAME or a path, or \
          kernel = the path of a Linux kernel)"
        ]
    );
    assert_eq!(mistakes("\n[host]\n"), ["2:7: vm: the table `vm` is missing (add at least one [[vm]])"]);
    assert_eq!(mistakes(""), ["1:1: vm: the table `vm` is missing (add at least one [[vm]])"]);
    assert_eq!(mistakes("vm = []\n"), ["1:6: vm: the list is empty (give at least one item)"]);
}

#[test]
fn table_written_as_array_or_array_as_table_is_shown_how_to_write_it() {
    assert_eq!(
        mistakes("[vm]\nname = \"a\"\n"),
        ["1:1: vm: expected an array, found a table (write [[vm]] in place of [vm])"]
    );
    let policy = mistakes(&vm("[[policy]]"));
    assert_eq!(policy, ["4:1: policy: expected a table, found an array (write [policy], once)"]);
}

#[test]
fn command_line_is_measured_in_bytes() {
    assert!(parse(&vm(&format!("cmdline = \"{}\"", "x".repeat(1024)))).is_ok());
    let long = mistakes(&vm(&format!("cmdline = \"{}\"", "é".repeat(513))));
    assert_eq!(long, ["4:11: vm[0].cmdline: the text has 1026 bytes (accepted: at most 1024 bytes)"]);
}

#[test]
fn several_mistakes_are_reported_together_in_the_order_of_the_file() {
    let text = vm("vcpus = 0\nmemory = \"1T\"\ncolour = 1\n[host]\npcpus = [7]");
    let keys: Vec<_> = parse(&text).unwrap_err().problems().iter().map(|p| p.key().to_owned()).collect();
    assert_eq!(keys, ["vm[0].vcpus", "vm[0].memory", "vm[0].colour", "host.pcpus[0]"]);
}

#[test]
fn text_that_is_no_toml_gives_line_and_column() {
    let found = mistakes("[host]\npcpus = [0\n[policy\n");
    assert!(found[0].starts_with("2:") || found[0].starts_with("3:"), "{found:?}");
    let twice = mistakes("[host]\npcpus = [0]\npcpus = [1]\n");
    assert!(twice[0].starts_with("3:1: ") && twice[0].contains("duplicate key"), "{twice:?}");
}

#[test]
fn miette_report_shows_the_snippet_the_place_and_the_range() {
    let error = parse(&vm("vcpus = 2000\nnice = 20")).unwrap_err();
    let mut report = String::new();
    let theme = miette::GraphicalTheme::unicode_nocolor();
    miette::GraphicalReportHandler::new_themed(theme).render_report(&mut report, &error).unwrap();
    for part in [
        "conf/guests.toml: 2 mistakes in the configuration",
        "conf/guests.toml:4:9",
        "vcpus = 2000",
        "accepted: 1 to 1024",
        "vm[0].nice: 20 is out of range",
    ] {
        assert!(report.contains(part), "{part} is not in:\n{report}");
    }
}

#[test]
fn file_that_cannot_be_read_says_which_and_why() {
    let error = Config::load(Path::new("/nonexistent/stile.toml"), &context()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the configuration /nonexistent/stile.toml");
    assert!(error.problems().is_empty());
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("No such file"));
}
