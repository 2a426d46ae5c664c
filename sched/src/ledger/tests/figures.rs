//! Figures of recordings, held against the accounts of the domain.

use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::ledger::Ledger;
use crate::ledger::account::Account;
use crate::ledger::event::{Event, What};
use crate::ledger::figures::Figures;
use crate::policy::{Freelist, Why};
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

const A: VcpuId = VcpuId(0);
const B: VcpuId = VcpuId(1);
const P0: Slot = Slot(0);

#[test]
fn figures_of_a_recording_are_those_of_the_domain() {
    let mut ledger = Ledger::new(Box::new(Freelist::new(Nanos::from_millis(6), 1)), 1, 64);
    let mut now = Time(1_000);
    let mut later = || {
        now = now + Nanos::from_micros(700);
        now
    };
    for vcpu in [A, B] {
        ledger.add(vcpu, Attributes::default(), later());
        let _ = ledger.wake(vcpu, None, later());
    }
    let _ = ledger.next(P0, Why::Free, later());
    let _ = ledger.next(P0, Why::Yield(Yield { wait: Wait::Message(B), again: false }), later());
    let _ = ledger.next(P0, Why::Block, later());
    ledger.idled_since(B, Time(3_900_000));
    let retired = ledger.account_of(A, Time(5_000_000)).unwrap();
    let _ = ledger.next(P0, Why::Retire, Time(5_000_000));
    let _ = ledger.wake(B, None, Time(6_000_000));
    let _ = ledger.next(P0, Why::Free, Time(7_000_000));
    let mut figures = Figures::new(1);
    assert!(ledger.trace().latest().iter().all(|event| figures.tell(event)));
    let [a, b] = &figures.vcpus()[..] else { panic!("two vCPUs were there") };
    assert_eq!((a.vcpu, a.until, b.vcpu, b.until), (A, Time(5_000_000), B, Time(7_000_000)));
    let essence = |account: &Account| (account.run, account.wait, account.idle, account.waits.clone(), account.turns);
    assert_eq!(essence(&a.account), essence(&retired));
    assert_eq!(essence(&b.account), essence(&ledger.account_of(B, Time(7_000_000)).unwrap()));
    assert_eq!((figures.counts().switches, ledger.counts().switches), (3, 3));
    assert_eq!(figures.counts().yields.message.switched, 1);
}

#[test]
fn nothing_is_entered_behind_a_gap_or_from_nonsense() {
    let mut figures = Figures::new(1);
    assert!(!figures.tell(&Event { time: Time(1), what: What::Gap { lost: 1 } }));
    assert!(!figures.tell(&Event { time: Time(2), what: What::Remove { vcpu: A } }));
    assert!(figures.vcpus().is_empty());
}
