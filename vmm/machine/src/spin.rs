//! Finds out whether guest code spins: whether it is in a short loop that contains a PAUSE.
//!
//! Only code bytes are judged. The code is decoded from the next instruction on, in the order of addresses, until a
//! branch leads to that instruction or before it. This is the innermost loop, if the code was compiled as usual. Calls
//! and jumps out of the loop do not matter. A vCPU that is inside a function called by the loop is not found to spin.
//! Code that is made to deceive affects only its own VM: its vCPUs yield when they need not.
//!
//! Two looks at a spinning vCPU tell whether it made progress in between. The registers that the loop does not write
//! say what the vCPU waits for, such as the ticket that it has drawn. Two waits with equal values in all of these
//! registers are taken for one wait.

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use kvm_bindings::kvm_regs;
use stile_sched::{Wait, Yield};

/// Longest loop that may be nothing but waiting (units: bytes). Loops of the usual locks are half as long. A loop that
/// contains a critical section beside its PAUSE is longer.
pub(crate) const LOOP_MAX: usize = 64;
/// Longest instruction (units: bytes).
const INSTRUCTION_MAX: usize = 15;
/// Number of general registers.
const GENERAL: usize = 16;
/// Bytes of code that have to be known after the start of the next instruction.
pub(crate) const AHEAD: usize = LOOP_MAX + INSTRUCTION_MAX;

/// A loop that does nothing but wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spin {
    /// Offset of its first instruction in the code.
    first: usize,
    /// The general registers that it writes, one bit for each.
    writes: u16,
}

/// What a vCPU waits for, as far as it can be seen. Equal as long as the vCPU spins in one loop for one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    first: u64,
    registers: [u64; GENERAL],
}

/// Where the last look at a vCPU found it spinning, if it did.
#[derive(Debug, Default)]
pub(crate) struct LastSpot(Option<Spot>);

impl LastSpot {
    /// Takes in what the next look found. Returns the yield for which it counts, if the vCPU spins.
    pub(crate) fn follow(&mut self, spot: Option<Spot>) -> Option<Yield> {
        let before = std::mem::replace(&mut self.0, spot);
        spot.map(|_| Yield { wait: Wait::Spin, again: spot == before })
    }
}

impl Spin {
    /// The waiting loop around the instruction at offset `next`, which the vCPU executes next; `None` if there is none.
    pub(crate) fn around(code: &[u8], next: usize) -> Option<Self> {
        let back = instructions(code, next)
            .take_while(|i| i.ip() - (next as u64) < LOOP_MAX as u64)
            .find(|i| branches(i) && i.near_branch_target() <= next as u64)?;
        let first = back.near_branch_target();
        if back.next_ip() - first > LOOP_MAX as u64 {
            return None;
        }
        // Instructions that do not line up with `next` are not the ones that are executed.
        let body = || instructions(code, first as usize).take_while(|i| i.ip() <= back.ip());
        let spins = body().any(|i| i.ip() == next as u64) && body().any(|i| i.mnemonic() == Mnemonic::Pause);
        spins.then(|| Self { first: first as usize, writes: written(body()) })
    }

    /// The spot of a vCPU in this loop. The code begins at this address, and the vCPU has these general registers.
    pub(crate) fn spot(self, code: u64, registers: &kvm_regs) -> Spot {
        let mut registers = general(registers);
        for (number, register) in registers.iter_mut().enumerate() {
            if self.writes & 1 << number != 0 {
                *register = 0;
            }
        }
        Spot { first: code + self.first as u64, registers }
    }
}

/// The general registers, in the order in which instructions number them.
fn general(r: &kvm_regs) -> [u64; GENERAL] {
    [r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15]
}

/// The general registers that these instructions may write. A call may write all but the stack pointer.
fn written(body: impl Iterator<Item = Instruction>) -> u16 {
    let mut factory = InstructionInfoFactory::new();
    body.fold(0, |written, instruction| {
        let used = factory.info(&instruction).used_registers();
        let writes = |access| !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
        let general = used.iter().filter(|u| u.register().is_gpr() && writes(u.access()));
        let own = if calls(&instruction) { !bit(Register::RSP) } else { general.fold(0, |w, u| w | bit(u.register())) };
        written | own
    })
}

fn bit(register: Register) -> u16 {
    1 << register.full_register().number()
}

/// Decodes the instructions from this offset on, up to the first bytes that are not an instruction.
fn instructions(code: &[u8], from: usize) -> impl Iterator<Item = Instruction> {
    let bytes = code.get(from..).unwrap_or_default();
    Decoder::with_ip(64, bytes, from as u64, DecoderOptions::NONE).into_iter().take_while(|i| !i.is_invalid())
}

fn branches(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::NearBranch64 && !calls(instruction)
}

fn calls(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Call
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: [u8; 2] = [0xf3, 0x90];
    const RET: u8 = 0xc3;

    fn spins(code: &[u8], next: usize) -> bool {
        Spin::around(code, next).is_some()
    }

    /// Offsets at which a vCPU in this code is found to spin.
    fn seen(code: &[u8]) -> Vec<usize> {
        (0..code.len()).filter(|&next| spins(code, next)).collect()
    }

    #[test]
    fn a_loop_that_looks_and_pauses_spins_at_each_of_its_instructions_and_nowhere_else() {
        let code = [
            0x31, 0xc0, // 0: xor eax, eax
            0x39, 0x07, // 2: cmp [rdi], eax
            0x74, 0x04, // 4: je 10
            0xf3, 0x90, // 6: pause
            0xeb, 0xf8, // 8: jmp 2
            0x90, RET, // 10: nop; ret
        ];
        assert_eq!(seen(&code), [2, 4, 6, 8]);
    }

    #[test]
    fn a_counted_loop_with_its_condition_at_the_end_spins() {
        let code = [
            0xf3, 0x90, // 0: pause
            0x8b, 0x07, // 2: mov eax, [rdi]
            0x85, 0xc0, // 4: test eax, eax
            0x75, 0x04, // 6: jne 12
            0xff, 0xc9, // 8: dec ecx
            0x75, 0xf4, // 10: jne 0
            RET,
        ];
        assert_eq!(seen(&code), [0, 2, 4, 6, 8, 10]);
        // This loop, built with the instruction `loop`.
        assert_eq!(seen(&[0xf3, 0x90, 0xe2, 0xfc, RET]), [0, 2]);
    }

    #[test]
    fn who_tests_before_it_tries_again_spins_in_the_try_as_well() {
        let code = [
            0xf0, 0x0f, 0xb1, 0x0f, // 0: lock cmpxchg [rdi], ecx
            0x74, 0x08, // 4: je 14
            0xf3, 0x90, // 6: pause
            0x83, 0x3f, 0x00, // 8: cmp dword [rdi], 0
            0x75, 0xf9, // 11: jne 6
            0xeb, // 13: jmp 0
            0xf1, RET,
        ];
        assert_eq!(seen(&code), [0, 4, 6, 8, 11, 13]);
    }

    #[test]
    fn a_loop_without_a_pause_computes_though_a_spinning_one_is_near_or_around_it() {
        let computes = [0x48, 0xff, 0xc9, 0x75, 0xfb]; // dec rcx; jnz -5
        let spins = [0xf3, 0x90, 0x39, 0x07, 0x75, 0xfa]; // pause; cmp [rdi], eax; jne -6
        assert_eq!(seen(&[&computes[..], &spins].concat()), [5, 7, 9]);
        assert_eq!(seen(&[&spins[..], &computes].concat()), [0, 2, 4]);
        let around = [&computes[..], &PAUSE, &[0xeb, 0xf7]].concat(); // ...; pause; jmp 0
        assert_eq!(seen(&around), [5, 7]);
    }

    #[test]
    fn a_loop_that_calls_and_pauses_spins_but_the_function_it_calls_does_not() {
        let code = [
            0xe8, 0x06, 0, 0, 0, // 0: call 11
            0xf3, 0x90, // 5: pause
            0x75, 0xf7, // 7: jne 0
            RET, 0xcc, // 9: ret; int3
            0x8b, 0x07, // 11: mov eax, [rdi]
            RET,  // 13
        ];
        assert_eq!(seen(&code), [0, 5, 7]);
    }

    #[test]
    fn prefixes_that_mean_nothing_change_nothing_and_a_plain_nop_is_no_pause() {
        for pause in [&[0x66, 0xf3, 0x90][..], &[0xf3, 0x66, 0x90], &[0x2e, 0xf3, 0x90], &[0xf3, 0x48, 0x90]] {
            let back = -(pause.len() as i8) - 2;
            assert!(spins(&[pause, &[0xeb, back as u8]].concat(), 0), "{pause:02x?}");
        }
        assert!(seen(&[0x90, 0xeb, 0xfd]).is_empty());
        assert!(seen(&[0x66, 0x90, 0xeb, 0xfc]).is_empty());
    }

    #[test]
    fn a_loop_is_too_long_from_one_byte_more_than_the_longest() {
        let of = |length: usize| {
            let mut code = PAUSE.to_vec();
            code.resize(length - 2, 0x90);
            [&code[..], &[0xeb, -(length as i8) as u8, RET]].concat()
        };
        assert!(spins(&of(LOOP_MAX), 0) && spins(&of(LOOP_MAX), LOOP_MAX - 2));
        assert!(!spins(&of(LOOP_MAX + 1), 0) && !spins(&of(LOOP_MAX + 1), LOOP_MAX - 1));
        // With a near branch, the longest loop there is.
        let mut code = PAUSE.to_vec();
        code.resize(LOOP_MAX - 5, 0x90);
        code.extend([0xe9, -(LOOP_MAX as i8) as u8, 0xff, 0xff, 0xff]);
        assert!(spins(&code, 0));
    }

    #[test]
    fn code_that_ends_or_is_none_does_not_spin() {
        assert!(!spins(&[], 0));
        assert!(!spins(&PAUSE, 0), "the branch lies beyond what is known");
        assert!(!spins(&PAUSE, 2) && !spins(&PAUSE, 9));
        assert!(!spins(&[0xf3, 0x90, 0xeb], 0), "half a branch");
        assert!(!spins(&[0xf3, 0x90, 0x06, 0xeb, 0xfb], 0), "0x06 is no instruction");
        assert!(!spins(&[0xf3, 0x90, 0xeb, 0x80], 2), "the loop begins before what is known");
    }

    #[test]
    fn a_branch_into_the_middle_of_what_is_executed_makes_no_loop() {
        // 0: mov eax, 0x90f3..: a PAUSE only after a jump into it; 5: jmp 1.
        let code = [0xb8, 0xf3, 0x90, 0x90, 0x90, 0xeb, 0xfa];
        assert!(spins(&code, 5), "a vCPU that jumps there spins");
        assert!(!spins(&code, 0));
    }

    #[test]
    fn a_spot_is_the_same_wherever_in_its_loop_and_whatever_the_loop_itself_writes() {
        let code = [0xf3, 0x90, 0x8b, 0x07, 0x39, 0xf0, 0x75, 0xf8, RET]; // pause; mov eax, [rdi]; cmp eax, esi; jne 0
        let registers = |rax, rsi| kvm_regs { rax, rsi, rdi: 7, ..kvm_regs::default() };
        let spot = |next, rax, rsi| Spin::around(&code, next).unwrap().spot(0x1000, &registers(rax, rsi));
        assert_eq!(spot(0, 1, 5), spot(4, 2, 5), "the number that is served has changed");
        assert_ne!(spot(0, 1, 5), spot(0, 1, 6), "it has another ticket");
        let elsewhere = Spin::around(&code, 0).unwrap().spot(0x2000, &registers(1, 5));
        assert_ne!(elsewhere, spot(0, 1, 5));
    }

    #[test]
    fn parts_of_registers_and_counters_are_written_and_what_is_only_read_is_not() {
        let writes = |code: &[u8]| Spin::around(code, 0).unwrap().writes;
        let (rax, rcx, r8) = (1, 1 << 1, 1 << 8);
        assert_eq!(writes(&[0xf3, 0x90, 0x8a, 0x07, 0x3c, 0x01, 0x75, 0xf8]), rax, "mov al, [rdi]; cmp al, 1");
        assert_eq!(writes(&[0xf3, 0x90, 0x49, 0xff, 0xc8, 0x75, 0xf9]), r8, "dec r8");
        assert_eq!(writes(&[0xf3, 0x90, 0xe2, 0xfc]), rcx, "loop");
        assert_eq!(writes(&[0xf3, 0x90, 0x39, 0x07, 0x75, 0xfa]), 0, "cmp [rdi], eax");
        assert_eq!(writes(&[0xf3, 0x90, 0xe8, 0, 0, 0, 0, 0x75, 0xf7]), !(1 << 4), "call");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_judged(code in proptest::collection::vec(proptest::num::u8::ANY, 0..160), next in 0_usize..170) {
            if let Some(spin) = Spin::around(&code, next) {
                let _ = spin.spot(u64::MAX - 200, &kvm_regs::default());
            }
        }
    }
}
