//! Several workloads in one VM: `roles=pair:2,locker:3,hog:3` lets the first two vCPUs play ping-pong, and so on.

use crate::params::{Params, refuse};
use crate::{hog, pingpong, probe, ticket};
use stile_rt::{Boot, Cpu};

/// The role of one vCPU, and its place among the vCPUs of that role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Locker,
    Hog,
    Probe,
    Pair { place: u32 },
}

/// Runs the role that `roles` gives to this vCPU; by default the first half are lockers, the second half hogs.
pub fn main(cpu: Cpu) -> u32 {
    let params = Params::of(cpu);
    let vcpus = Boot::page().vcpus();
    let role = match params.text("roles") {
        None if cpu.index() < vcpus / 2 => Role::Locker,
        None => Role::Hog,
        Some(roles) => role_of(roles, cpu.index())
            .unwrap_or_else(|why| refuse(cpu, format_args!("roles={roles}: {why} (vCPU {})", cpu.index()))),
    };
    match role {
        Role::Locker => ticket::run(cpu, &params),
        Role::Hog => hog::run(cpu, &params),
        Role::Probe => probe::run(cpu, &params),
        Role::Pair { place } => {
            let serves = place.is_multiple_of(2);
            pingpong::run(cpu, &params, if serves { cpu.index() + 1 } else { cpu.index() - 1 }, serves)
        }
    }
}

fn role_of(roles: &str, vcpu: u32) -> Result<Role, &'static str> {
    let mut first = 0;
    for word in roles.split(',') {
        let (name, count) = word.split_once(':').ok_or("want NAME:COUNT,...")?;
        let count: u32 = count.parse().map_err(|_| "a count is not a whole number")?;
        let place = vcpu - first;
        if place < count {
            return match name {
                "locker" => Ok(Role::Locker),
                "hog" => Ok(Role::Hog),
                "probe" => Ok(Role::Probe),
                "pair" if count.is_multiple_of(2) => Ok(Role::Pair { place }),
                "pair" => Err("pair wants an even count"),
                _ => Err("a role is locker, hog, probe or pair"),
            };
        }
        first += count;
    }
    Err("fewer roles than vCPUs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_go_to_vcpus_in_order() {
        let roles = "pair:2,locker:1,hog:2";
        let of = |vcpu| role_of(roles, vcpu);
        assert_eq!(of(0), Ok(Role::Pair { place: 0 }));
        assert_eq!(of(1), Ok(Role::Pair { place: 1 }));
        assert_eq!(of(2), Ok(Role::Locker));
        assert_eq!(of(4), Ok(Role::Hog));
        assert!(of(5).is_err(), "more vCPUs than roles");
    }

    #[test]
    fn a_bad_role_is_refused_with_its_reason() {
        for roles in ["locker", "locker:x", "pair:3", "cook:4"] {
            assert!(role_of(roles, 0).is_err(), "{roles}");
        }
    }
}
