//! The VMs of cells whose VMs exist from the start and exchange no frames.

use stile_sched::Nice;
use stile_suites::{Metric, Suite, Vms};

/// One VM of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guest {
    pub(crate) name: String,
    pub(crate) image: &'static str,
    pub(crate) vcpus: u32,
    pub(crate) nice: Nice,
    /// The metric of its share of CPU time, if the suite has one for each VM.
    pub(crate) share: Option<Metric>,
}

/// The number of VMs of a cell of this size.
pub(crate) fn count(vms: Vms, size: u32) -> u32 {
    match vms {
        Vms::One => 1,
        Vms::Beside { variants, .. } => 2 * variants.len() as u32,
        Vms::Nices(nices) => size.min(nices.len() as u32),
        Vms::PerSize { each, besides } => each * size + besides,
    }
}

/// The built-in image of a suite.
pub(crate) fn image(suite: Suite) -> &'static str {
    suite.builtin().expect("only suites with built-in guests are run with them").image
}

/// The VMs of a cell of this size: one with all its vCPUs, two side by side, or one for each nice value.
pub(crate) fn guests(suite: Suite, size: u32) -> Vec<Guest> {
    let image = image(suite);
    match suite.builtin().map(|guests| guests.vms) {
        Some(Vms::One) => {
            vec![Guest { name: image.to_owned(), image, vcpus: size, nice: Nice::default(), share: None }]
        }
        Some(Vms::Beside { image: beside, share, .. }) => {
            let vm = |image: &'static str, vcpus, share| Guest {
                name: image.to_owned(),
                image,
                vcpus,
                nice: Nice::default(),
                share,
            };
            vec![vm(image, size / 2, Some(share)), vm(beside, size - size / 2, None)]
        }
        Some(Vms::Nices(nices)) => of_nices(image, nices, size),
        Some(Vms::PerSize { .. }) | None => unreachable!("the cells of {suite} make their VMs themselves"),
    }
}

/// VMs with equal numbers of vCPUs, as far as the size divides.
fn of_nices(image: &'static str, nices: &[(i8, Metric)], size: u32) -> Vec<Guest> {
    let all = nices.len() as u32;
    let guest = |(place, (nice, share)): (u32, &(i8, Metric))| Guest {
        name: format!("nice-{nice}"),
        image,
        vcpus: (size + all - 1 - place) / all,
        nice: Nice::new(*nice).expect("the suite's nice values are in range"),
        share: Some(*share),
    };
    (0..).zip(nices).map(guest).filter(|guest| guest.vcpus > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_values_have_equal_numbers_of_vcpus_as_far_as_they_go() {
        let of = |size| guests(Suite::Weights, size).iter().map(|g| (g.nice.get(), g.vcpus)).collect::<Vec<_>>();
        assert_eq!(of(1), [(0, 1)]);
        assert_eq!(of(2), [(0, 1), (5, 1)]);
        assert_eq!(of(8), [(0, 3), (5, 3), (10, 2)]);
        assert_eq!(of(12), [(0, 4), (5, 4), (10, 4)]);
        assert_eq!(guests(Suite::Ticket, 12).len(), 1);
    }

    #[test]
    fn as_many_vms_are_counted_as_there_are() {
        let vms = |suite: Suite| suite.builtin().unwrap().vms;
        for size in 1..8 {
            assert_eq!(count(vms(Suite::Weights), size), guests(Suite::Weights, size).len() as u32);
            assert_eq!(count(vms(Suite::Ticket), size), 1);
        }
    }
}
