//! A list of permitted system calls, and its program for the kernel.
//!
//! A call can be permitted whatever its arguments, or for some values of arguments. The kernel compares arguments as
//! numbers: it cannot see what an address points to.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// A test of one argument of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Argument {
    /// Its number, from 0.
    pub(crate) index: u8,
    /// The bits that are compared.
    pub(crate) mask: u64,
    /// Their value.
    pub(crate) value: u64,
}

impl Argument {
    /// A 32-bit argument of this value.
    pub(crate) const fn is(index: u8, value: i64) -> Self {
        Self { index, mask: u32::MAX as u64, value: value as u64 & u32::MAX as u64 }
    }

    /// An argument without these bits.
    pub(crate) const fn lacks(index: u8, bits: i32) -> Self {
        Self { index, mask: bits as u32 as u64, value: 0 }
    }

    /// An argument with these bits.
    pub(crate) const fn has(index: u8, bits: i32) -> Self {
        Self { index, mask: bits as u32 as u64, value: bits as u32 as u64 }
    }

    /// An argument that is no address.
    pub(crate) const fn is_null(index: u8) -> Self {
        Self { index, mask: u64::MAX, value: 0 }
    }

    fn condition(self) -> Result<SeccompCondition, BackendError> {
        // A comparison of 64 bits costs the kernel twice as many steps.
        let length = if self.mask > u32::MAX.into() { SeccompCmpArgLen::Qword } else { SeccompCmpArgLen::Dword };
        SeccompCondition::new(self.index, length, SeccompCmpOp::MaskedEq(self.mask), self.value)
    }
}

/// Permitted calls. Each has the tests of which one has to hold; none if its arguments do not matter.
#[derive(Debug, Clone, Default)]
pub(crate) struct List(BTreeMap<i64, Vec<Argument>>);

impl List {
    /// Permits these calls, whatever their arguments.
    pub(crate) fn with(mut self, calls: &[i64]) -> Self {
        calls.iter().for_each(|call| drop(self.0.insert(*call, Vec::new())));
        self
    }

    /// Permits a call if one of these tests holds, besides what is permitted already. These tests come first.
    pub(crate) fn with_only(mut self, call: i64, tests: &[Argument]) -> Self {
        match self.0.get_mut(&call) {
            Some(all) if all.is_empty() => {}
            Some(some) => drop(some.splice(0..0, tests.iter().copied())),
            None => drop(self.0.insert(call, tests.to_vec())),
        }
        self
    }

    /// Whether the list permits this call for all or some arguments.
    #[cfg(test)]
    pub(crate) fn names(&self, call: i64) -> bool {
        self.0.contains_key(&call)
    }

    /// All calls of the list.
    #[cfg(test)]
    pub(crate) fn calls(&self) -> impl Iterator<Item = i64> {
        self.0.keys().copied()
    }

    /// The program that permits the list and traps all else.
    pub(crate) fn trapping(self) -> Result<BpfProgram, BackendError> {
        self.program(SeccompAction::Trap, SeccompAction::Allow)
    }

    /// The program with which these calls fail with this error, and no other does.
    pub(crate) fn failing(self, error: i32) -> Result<BpfProgram, BackendError> {
        self.program(SeccompAction::Allow, SeccompAction::Errno(error as u32))
    }

    fn program(self, mismatch: SeccompAction, matching: SeccompAction) -> Result<BpfProgram, BackendError> {
        let rule = |test: Argument| SeccompRule::new(vec![test.condition()?]);
        let rules = self.0.into_iter().map(|(call, tests)| {
            let rules = tests.into_iter().map(rule).collect::<Result<Vec<_>, _>>()?;
            Ok((call, rules))
        });
        let rules = rules.collect::<Result<BTreeMap<_, _>, BackendError>>()?;
        SeccompFilter::new(rules, mismatch, matching, TargetArch::x86_64)?.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_permitted_for_all_arguments_stays_so() {
        let list = List::default().with(&[libc::SYS_read]).with_only(libc::SYS_read, &[Argument::is(0, 1)]);
        assert_eq!(list.0[&libc::SYS_read].len(), 0);
        let list = List::default().with_only(libc::SYS_read, &[Argument::is(0, 1)]).with(&[libc::SYS_read]);
        assert_eq!(list.0[&libc::SYS_read].len(), 0);
    }

    #[test]
    fn tests_of_a_call_add_up() {
        let once = List::default().with_only(libc::SYS_ioctl, &[Argument::is(1, 1)]);
        assert_eq!(once.with_only(libc::SYS_ioctl, &[Argument::is(1, 2)]).0[&libc::SYS_ioctl].len(), 2);
    }
}
