//! Numbers and requests that look random, the same ones for the same seed.

use hyper::Method;
use serde_json::{Value, json};

/// The environment's number of this name, or else this one.
pub(crate) fn number(key: &str, default: usize) -> usize {
    std::env::var(key).map_or(default, |text| text.parse().expect("it is a number"))
}

/// Xorshift (Marsaglia 2003).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: usize) -> Self {
        Self(seed as u64 + (1 << 32))
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// One of these.
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Neighbours among these, one at least.
    fn run_of<'a, T>(&mut self, all: &'a [T]) -> &'a [T] {
        let (one, other) = (self.below(all.len()), self.below(all.len()));
        &all[one.min(other)..=one.max(other)]
    }

    /// A third of a table's keys, each with one of the values that the table lists for it.
    fn some_of(&mut self, table: &Value) -> Value {
        match table {
            Value::Array(all) => all[self.below(all.len())].clone(),
            Value::Object(keys) => {
                let some: Vec<_> = keys.iter().filter(|_| self.below(3) == 0).collect();
                some.into_iter().map(|(key, values)| (key.clone(), self.some_of(values))).collect()
            }
            other => panic!("neither keys nor values: {other}"),
        }
    }

    /// A request for a change of a node with VMs `a`, `b` and `c`, which other VMs come to and leave.
    pub(crate) fn request(&mut self, policies: &Value, pcpus: &[u32]) -> (Method, String, Value) {
        const IMAGES: [&str; 3] = ["builtin:hello", "builtin:hog", "builtin:probe"];
        let (vm, guest) = (self.of(&["a", "b", "c"]), format!("guest-{}", self.below(4)));
        match self.below(20) {
            0 => (Method::PUT, "/v1/policy?confirm_within=5ms".to_owned(), json!({ "keys": self.some_of(policies) })),
            1..11 => (Method::PUT, "/v1/policy".to_owned(), json!({ "keys": self.some_of(policies) })),
            11..13 => (Method::PUT, "/v1/pcpus".to_owned(), json!({ "pcpus": self.run_of(pcpus) })),
            13..15 => (Method::PATCH, format!("/v1/vms/{vm}/scheduling"), self.some_of(&scheduling())),
            15 => (Method::POST, format!("/v1/vms/{vm}/{}", self.of(&["pause", "resume"])), Value::Null),
            16 => (Method::POST, format!("/v1/vms/{vm}/{}", self.of(&["stop?mode=hard", "start"])), Value::Null),
            17 => {
                // Now and then more than leases make records for at a time.
                let guest = json!({ "name": guest, "image": self.of(&IMAGES), "vcpus": self.of(&[1, 1, 2, 70]) });
                (Method::POST, "/v1/vms?start=true".to_owned(), guest)
            }
            18 => (Method::DELETE, format!("/v1/vms/{guest}?force=true"), Value::Null),
            _ => (Method::GET, "/v1/frame".to_owned(), Value::Null),
        }
    }
}

/// Keys of a VM's scheduling, with values for each: the ends of ranges and some between.
fn scheduling() -> Value {
    json!({
        "nice": [-20, 0, 5, 19], "class": ["normal", "batch", "idle", "rt"], "cap": [0.01, 0.05, 0.5, 1024.0, "none"],
        "cap_period": ["10ms", "100ms", "1s"],
    })
}

/// Keys of `[policy]`, as above. More than one entry of a kind makes it come more often.
pub(crate) fn policies() -> Value {
    let flag = json!([true, false]);
    let interval = json!(["100us", "317us", "3ms", "6ms", "50ms", "5s"]);
    json!({
        "algorithm": ["rsdl", "rsdl", "rsdl", "host", "host-noyield", "freelist", "o1", "goodness", "credit2"],
        "mechanism": ["auto", "executors", "leases"],
        "rt_boost": flag, "steal": flag, "spin_detection": flag, "affinity": flag, "grain": flag,
        "rr_interval": interval, "target_latency": interval, "least_quota": interval,
        "variant": ["dithered", "level-quota"],
        "yield": ["polite", "expire", "none"],
        "run_queues": ["auto", "shared", "per-pcpu"],
        "shard_pcpus": [1, 1, 2, 16, 4096],
        "starvation_bound": ["none", "100ms", "1s", "3600s"],
        "on_starvation": ["report", "fallback"],
        "polite": {
            "directed": flag, "keep_place": flag, "prefer_computing": flag, "evict_for_peer": flag,
            "pair_lockers": flag, "stay_with_running_peer": flag, "break_lockstep": flag, "forgive": flag,
            "order_by_progress": flag, "guess_peer": flag, "tell_presence": flag, "strict": flag,
        },
        "goodness": { "yield_recalculates": flag, "yield_bounces": flag },
        "lock": { "lateral": flag, "adaptive": flag },
    })
}
