//! Names of vCPUs: the VM's, and the vCPU's number in it, as in `worker-0/1`.
//!
//! A domain uses ids again, so a name belongs to an id from a given time on.

use serde::{Deserialize, Serialize};
use stile_machine::vm::VcpuSet;
use stile_sched::{Time, VcpuId};

/// A vCPU's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its id in the domain.
    pub id: u32,
    /// Since when it has the id (unit: ns).
    pub since: u64,
    /// The VM's name.
    pub vm: String,
    /// Its number in the VM.
    pub index: u32,
}

/// All names of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Named>", into = "Vec<Named>")]
pub struct Names {
    /// In order of id and time.
    names: Vec<Named>,
}

impl From<Vec<Named>> for Names {
    fn from(mut names: Vec<Named>) -> Self {
        names.sort_by_key(|named| (named.id, named.since));
        Self { names }
    }
}

impl From<Names> for Vec<Named> {
    fn from(names: Names) -> Self {
        names.names
    }
}

impl Names {
    /// The names of a VM's vCPUs. They have their ids since the VM was made.
    pub fn of_vm(vm: &VcpuSet) -> impl Iterator<Item = Named> + '_ {
        let named = |(index, id): (u32, VcpuId)| Named {
            id: id.0,
            since: vm.created().0,
            vm: vm.status().name().to_owned(),
            index,
        };
        (0..).zip(vm.ids()).map(named)
    }

    /// The name that belongs to this id at this time.
    pub fn get(&self, vcpu: VcpuId, at: Time) -> Option<&Named> {
        let after = self.names.partition_point(|named| (named.id, named.since) <= (vcpu.0, at.0));
        self.names[..after].last().filter(|named| named.id == vcpu.0)
    }

    /// The name of a vCPU at this time, or its id if it has no name.
    pub fn of(&self, vcpu: VcpuId, at: Time) -> String {
        self.get(vcpu, at).map_or_else(|| vcpu.to_string(), ToString::to_string)
    }

    /// Whether a vCPU has this name at this time, or this id.
    pub fn is(&self, name: &str, vcpu: VcpuId, at: Time) -> bool {
        name == vcpu.to_string() || self.get(vcpu, at).is_some_and(|named| name == named.to_string())
    }

    /// The vCPUs of the VM of this name, or of all VMs that one entry of a configuration made (`worker-0`, `worker-1`
    /// of `worker`), in order; none if there is no such VM.
    pub fn of_vm_named(&self, vm: &str) -> Vec<String> {
        let of = |is: &dyn Fn(&str) -> bool| {
            let mut vcpus: Vec<&Named> = self.names.iter().filter(|named| is(&named.vm)).collect();
            vcpus.sort_by_key(|named| (named.vm.len(), &named.vm, named.index));
            vcpus.dedup_by_key(|named| (&named.vm, named.index));
            vcpus.into_iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let is_copy = |name: &str| {
            let number = name.strip_prefix(vm).and_then(|rest| rest.strip_prefix('-'));
            number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let exactly = of(&|name| name == vm);
        if exactly.is_empty() { of(&is_copy) } else { exactly }
    }

    /// All names, each once, in order of their first appearance.
    pub fn all(&self) -> Vec<String> {
        let mut by_time: Vec<&Named> = self.names.iter().collect();
        by_time.sort_by_key(|named| (named.since, named.id));
        let mut all: Vec<String> = Vec::new();
        for name in by_time.into_iter().map(ToString::to_string) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.vm, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_used_again_has_the_name_of_its_time() {
        let named = |id, since, vm: &str| Named { id, since, vm: vm.to_owned(), index: 1 };
        let names = Names::from(vec![named(3, 50, "b"), named(3, 10, "a"), named(4, 0, "c")]);
        let of = |id, at| names.of(VcpuId(id), Time(at));
        assert_eq!([of(3, 9), of(3, 10), of(3, 49), of(3, 50), of(4, 7)], ["v3", "a/1", "a/1", "b/1", "c/1"]);
        assert!(names.is("a/1", VcpuId(3), Time(20)) && names.is("v3", VcpuId(3), Time(20)));
        assert!(!names.is("a/1", VcpuId(3), Time(60)));
        assert_eq!(names.all(), ["c/1", "a/1", "b/1"]);
    }

    #[test]
    fn the_name_of_an_entry_means_all_vms_that_it_made() {
        let named = |id, vm: &str, index| Named { id, since: 0, vm: vm.to_owned(), index };
        let vms =
            vec![named(0, "a-10", 0), named(1, "a-2", 1), named(2, "a-2", 0), named(3, "a-b", 0), named(4, "b", 0)];
        let names = Names::from(vms);
        assert_eq!(names.of_vm_named("a"), ["a-2/0", "a-2/1", "a-10/0"]);
        assert_eq!(
            (names.of_vm_named("a-2"), names.of_vm_named("b")),
            (vec!["a-2/0".into(), "a-2/1".into()], vec!["b/0".into()])
        );
        assert!(names.of_vm_named("c").is_empty());
    }
}
