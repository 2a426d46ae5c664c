//! What holds for every configuration.

use proptest::prelude::*;

use super::*;

/// Values that the key of this schema takes: both of a switch, every choice, and the ends of a range, which `x-range`
/// gives as texts that are accepted.
fn values_of(root: &Value, schema: &Value) -> Vec<Value> {
    let schema = check::resolve(root, schema);
    let choices: Vec<Value> = check::choices(schema).into_iter().map(Value::from).collect();
    match (schema["type"].as_str(), schema["x-range"].as_str()) {
        (Some("boolean"), _) => vec![true.into(), false.into()],
        (Some("integer"), _) => ["minimum", "maximum"].map(|bound| schema[bound].clone()).to_vec(),
        (_, Some(range)) => range.replace(", or ", " to ").split(" to ").map(Value::from).collect(),
        _ => choices,
    }
}

/// Any policy.
fn policies() -> impl Strategy<Value = PolicyConfig> {
    let schema = schemars::schema_for!(PolicyConfig);
    let root = schema.as_value();
    let of = |key: &str| {
        let path = key.split('.');
        let schema = path.fold(root, |schema, name| &check::resolve(root, schema)["properties"][name]);
        let values = values_of(root, schema);
        assert!(values.len() > 1, "{key} takes {values:?}");
        prop::sample::select(values)
    };
    let keys: Vec<String> = policy_keys::keys().into_iter().chain(["algorithm".to_owned()]).collect();
    let values: Vec<_> = keys.iter().map(|key| of(key)).collect();
    let interval = (100_u64..=5_000_000).prop_map(|us| format!("{us}us").parse::<PolicyTime>().unwrap());
    let bound = prop::option::of(100..=3_600_000u64).prop_map(|ms| match ms {
        Some(ms) => format!("{ms}ms").parse::<StarvationBound>().unwrap(),
        None => StarvationBound::default(),
    });
    (values, interval, bound).prop_map(move |(values, rr_interval, starvation_bound)| {
        let set =
            |policy: PolicyConfig, (key, value): (&String, Value)| policy_keys::with(&policy, key, value).unwrap();
        let policy = keys.iter().zip(values).fold(PolicyConfig::default(), set);
        PolicyConfig { rr_interval, starvation_bound, ..policy }
    })
}

/// Any VM; its name ends in letters, so that no copy's number can make two names equal.
fn vms() -> impl Strategy<Value = VmConfig> {
    // A path that exists on every machine that runs the tests, and an embedded image.
    let image = prop::sample::select(vec!["builtin:hello".to_owned(), "/proc/self/exe".to_owned()]);
    let memory = (1024_u64..=stile_abi::MEMORY_MAX >> 12).prop_map(|pages| format!("{}K", pages * 4));
    let sizes = (1..=bounds::VCPUS_MAX, memory, bounds::NICE_MIN..=bounds::NICE_MAX, 1..=bounds::COUNT_MAX);
    let class = prop::sample::select(vec![VmClass::Normal, VmClass::Batch, VmClass::Idle, VmClass::Rt]);
    let caps = (prop::option::of(100_000..=1_000_000u32), 10_000..=1_000_000u32);
    let smallest = parse(&vm("")).unwrap().vms.remove(0);
    ("[a-z0-9_.-]{0,63}[a-z]", image, sizes, class, "\\PC{0,256}", prop::option::of("[a-z0-9_.-]{1,64}"), caps)
        .prop_map(move |(name, image, (vcpus, memory, nice, count), class, cmdline, network, (millionths, micros))| {
            VmConfig {
                name: name.parse().unwrap(),
                image: Some(image.parse().unwrap()),
                vcpus,
                memory: Some(memory.parse().unwrap()),
                nice,
                cap: millionths.map(|part| CpuCap::try_from(f64::from(part) / 1e6 * f64::from(vcpus)).unwrap()),
                cap_period: format!("{micros}us").parse().unwrap(),
                class,
                cmdline,
                network: network.map(|name| name.parse().unwrap()),
                count,
                ..smallest.clone()
            }
        })
}

/// Every key of the file, with the tables that it is in but for `[[vm]]`, and keys that there are not.
fn all_keys() -> Vec<String> {
    let schema = schema();
    let root = schema.as_value();
    let (mut keys, mut left) = (Vec::new(), vec![(String::new(), root)]);
    while let Some((path, schema)) = left.pop() {
        for (key, property) in check::resolve(root, schema)["properties"].as_object().into_iter().flatten() {
            left.push((format!("{path}{key}."), property));
            left.push((String::new(), &property["items"]));
            keys.push(format!("{path}{key}"));
        }
    }
    keys.extend(["policy.polite.other", "disk.read_only", "\"\""].map(str::to_owned));
    keys
}

/// `table.key = value` with values of every type, most of them wrong.
fn assignments() -> impl Strategy<Value = String> {
    const VALUES: [&str; 30] = [
        "0",
        "-1",
        "1",
        "2",
        "256",
        "5000000000",
        "-9223372036854775808",
        "0xffffffffffffffffffff",
        "1.5",
        "nan",
        "true",
        "\"\"",
        "\"6ms\"",
        "\"16M\"",
        "\"rsdl\"",
        "\"none\"",
        "\"a\"",
        "\"builtin:hello\"",
        "\"/proc/self/exe\"",
        "\"\\u0000\"",
        "[]",
        "[0]",
        "[0, 3, 0]",
        "[-1, 4294967296]",
        "[\"x\", 1.5, {}]",
        "{}",
        "{ path = \"/dev/null\" }",
        "{ path = \"a\", read_only = 1, other = 2 }",
        "{ name = \"a\", image = \"builtin:hello\" }",
        "1979-05-27",
    ];
    (prop::sample::select(all_keys()), prop::sample::select(&VALUES[..]))
        .prop_map(|(key, value)| format!("{key} = {value}"))
}

proptest! {
    // A problem without a key comes from serde: then the schema let something through that it should know.
    #[test]
    fn whatever_the_checks_let_through_is_accepted_by_serde(
        top in prop::collection::vec(assignments(), 0..3),
        vm in prop::collection::vec(assignments(), 0..6),
    ) {
        let text = format!("{}\n[[vm]]\n{}\n", top.join("\n"), vm.join("\n"));
        // A key written twice is the parser's business.
        let is_toml = toml::from_str::<toml::Table>(&text).is_ok();
        if is_toml && let Err(error) = parse(&text) {
            for problem in error.problems() {
                prop_assert!(!problem.key().is_empty(), "{problem} in:\n{text}");
            }
        }
    }

    #[test]
    fn valid_configuration_written_and_read_again_is_equal(
        cpus in prop::sample::subsequence(vec![0, 1, 3], 1..=3),
        halt_poll in prop::option::of(0..10_000u64),
        policy in policies(),
        mut vms in prop::collection::vec(vms(), 1..4),
    ) {
        vms.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        vms.dedup_by(|a, b| a.name == b.name);
        if matches!(policy.algorithm, Algorithm::Host | Algorithm::HostNoyield) {
            vms.iter_mut().for_each(|vm| vm.cap = None);
        }
        let halt_poll = HaltPoll::from_const(halt_poll.map(Duration::from_micros));
        let config = Config { host: HostConfig { pcpus: cpus.into(), halt_poll }, policy, vms };
        let text = toml::to_string(&config).unwrap();
        prop_assert_eq!(parse(&text).map_err(|error| TestCaseError::fail(format!("{:?}", error.problems())))?, config);
    }

    #[test]
    fn arbitrary_text_is_answered_without_a_panic(text in "\\PC*|(\\[+(host|vm|policy)\\]+\n|[a-z_]{1,8} ?= ?[0-9\"\\[\\]a-z{},.-]{0,6}\n){0,12}") {
        if let Err(error) = parse(&text) {
            prop_assert!(!error.problems().is_empty());
        }
    }
}
