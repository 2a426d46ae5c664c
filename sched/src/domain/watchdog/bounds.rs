//! How long each vCPU may wait, as vCPUs come and go, and whether one waited longer.

use super::report::Cause;
use crate::attributes::Attributes;
use crate::ledger::Seen;
use crate::time::{Nanos, Time};
use std::collections::HashMap;

/// The longest that a vCPU of these attributes waits beside these others; `None` if the policy promises nothing.
pub type BoundOf = Box<dyn Fn(Attributes, &[Attributes]) -> Option<Nanos> + Send>;

/// What switches and kicks may add to a bound, for they are charged to no vCPU: this part of it, and this time.
const SLACK_PART: u64 = 4;
const SLACK: Nanos = Nanos::from_millis(10);

/// What caused a vCPU to wait this long beside a bound, while the host kept the pCPUs to itself for so long; `None` if
/// it did not wait too long.
pub(super) fn judge(waited: Nanos, bound: Nanos, away: Nanos) -> Option<Cause> {
    let limit = bound + Nanos(bound.0 / SLACK_PART) + SLACK;
    if waited <= limit {
        None
    } else if waited <= limit + away {
        Some(Cause::Host)
    } else {
        Some(Cause::Scheduler)
    }
}

/// The bounds of a domain's vCPUs.
pub(super) struct Bounds {
    of: BoundOf,
    /// How many vCPUs there are of each kind.
    census: HashMap<Attributes, u32>,
    bounds: HashMap<Attributes, Bound>,
}

#[derive(Debug, Clone, Copy)]
struct Bound {
    now: Option<Nanos>,
    /// What was promised before, to vCPUs that may wait since then, and until when it still counts.
    before: Option<(Option<Nanos>, Time)>,
}

impl Bounds {
    pub(super) fn new(of: BoundOf) -> Self {
        Self { of, census: HashMap::new(), bounds: HashMap::new() }
    }

    /// Takes notice of the vCPUs that there are.
    pub(super) fn update(&mut self, seen: &[Seen], now: Time) {
        let mut census = HashMap::new();
        seen.iter().for_each(|seen| *census.entry(seen.attributes).or_insert(0) += 1);
        if census == self.census {
            return;
        }
        let mut all = Vec::with_capacity(seen.len());
        self.bounds = census
            .keys()
            .map(|&kind| {
                all.clear();
                let others = census.iter().map(|(&other, &count)| (other, count - u32::from(other == kind)));
                others.for_each(|(other, count)| all.extend(std::iter::repeat_n(other, count as usize)));
                let old = self.bounds.get(&kind).and_then(|bound| bound.in_force(now));
                (kind, Bound::after(old, (self.of)(kind, &all), now))
            })
            .collect();
        self.census = census;
    }

    /// How long a vCPU of these attributes may have waited by now.
    pub(super) fn of(&self, attributes: Attributes, now: Time) -> Option<Nanos> {
        self.bounds.get(&attributes)?.in_force(now)
    }

    /// The shortest of all.
    pub(super) fn shortest(&self) -> Option<Nanos> {
        self.bounds.values().filter_map(|bound| bound.now).min()
    }
}

impl Bound {
    /// A bound that becomes shorter holds for waits that begin now; earlier ones may last as long as was promised. So
    /// does a new bound: which vCPUs were there before the first look is not known.
    fn after(old: Option<Nanos>, new: Option<Nanos>, now: Time) -> Self {
        let before = match (old, new) {
            (Some(old), Some(new)) if old > new => Some((Some(old), now + old)),
            (None, Some(new)) => Some((None, now + new)),
            _ => None,
        };
        Self { now: new, before }
    }

    fn in_force(&self, now: Time) -> Option<Nanos> {
        match self.before {
            Some((before, until)) if now < until => before,
            _ => self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Class;
    use crate::ids::VcpuId;

    const MS: u64 = 1_000_000;

    fn kind(class: Class) -> Attributes {
        Attributes { class, ..Attributes::default() }
    }

    fn seen(classes: &[Class]) -> Vec<Seen> {
        let seen = |(id, &class): (usize, _)| Seen {
            vcpu: VcpuId(id as u32),
            attributes: kind(class),
            waits: None,
            owes: false,
        };
        classes.iter().enumerate().map(seen).collect()
    }

    /// 100 ms for each other vCPU; nothing for class idle.
    fn bounds() -> Bounds {
        let bound = |others: &[Attributes]| Nanos::from_millis(100 * others.len() as u64);
        Bounds::new(Box::new(move |me, others| (me.class != Class::Idle).then(|| bound(others))))
    }

    #[test]
    fn a_wait_is_too_long_beyond_the_bound_and_its_slack_and_the_hosts_fault_up_to_what_the_host_took() {
        let judge =
            |ms: u64, away: u64| judge(Nanos::from_millis(ms), Nanos::from_millis(400), Nanos::from_millis(away));
        assert_eq!(judge(510, 0), None);
        assert_eq!(judge(511, 0), Some(Cause::Scheduler));
        assert_eq!(judge(511, 1), Some(Cause::Host));
        assert_eq!(judge(900, 300), Some(Cause::Scheduler));
    }

    #[test]
    fn bounds_follow_who_is_there() {
        let mut bounds = bounds();
        assert_eq!(bounds.shortest(), None);
        bounds.update(&seen(&[Class::Normal, Class::Normal, Class::Idle]), Time(0));
        assert_eq!(bounds.of(kind(Class::Normal), Time(199 * MS)), None, "which vCPUs were there before is not known");
        let then = Time(200 * MS);
        assert_eq!(bounds.of(kind(Class::Normal), then), Some(Nanos::from_millis(200)));
        assert_eq!(bounds.of(kind(Class::Idle), then), None);
        assert_eq!(bounds.shortest(), Some(Nanos::from_millis(200)));
        bounds.update(&seen(&[Class::Normal; 4]), then);
        assert_eq!(bounds.of(kind(Class::Normal), then), Some(Nanos::from_millis(300)), "longer at once");
        assert_eq!(bounds.of(kind(Class::Idle), then), None, "nobody is of that class");
    }

    #[test]
    fn a_bound_that_becomes_shorter_leaves_earlier_waits_what_was_promised() {
        let mut bounds = bounds();
        bounds.update(&seen(&[Class::Normal; 5]), Time(0));
        let left = Time(1_000 * MS);
        bounds.update(&seen(&[Class::Normal; 2]), left);
        bounds.update(&seen(&[Class::Normal; 3]), left + Nanos(1));
        let normal = kind(Class::Normal);
        assert_eq!(bounds.of(normal, left + Nanos(399 * MS)), Some(Nanos::from_millis(400)));
        assert_eq!(bounds.of(normal, left + Nanos(401 * MS)), Some(Nanos::from_millis(200)));
    }
}
