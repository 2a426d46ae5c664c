//! Guests of a few instructions, for behaviour that no well-behaved program has.
//!
//! The instructions are assembled into this crate's own text, jumped over, and copied from there. They start at CPL 3
//! with `rdi` = boot-information page, `rsi` = vCPU index and `rsp` = top of the stack, and must be
//! position-independent.
#![allow(unsafe_code, reason = "inline assembly is where the instructions come from")]

use std::arch::asm;
use std::mem::{offset_of, size_of};
use stile_abi::{BootInfo, CallBlock, Gauge, IMAGE_MIN_GPA, KICK_OTHERS, port};

/// Machine code of a guest.
#[derive(Debug, Clone)]
pub struct Program {
    /// The instructions, from the first to run.
    pub code: Vec<u8>,
    /// Offset of the marked instruction.
    mark: usize,
}

impl Program {
    /// Address in the guest of the marked instruction.
    pub fn mark(&self) -> u64 {
        IMAGE_MIN_GPA + self.mark as u64
    }

    /// # Safety
    /// The addresses are those of one run of bytes in this program's text.
    unsafe fn copy(start: *const u8, mark: *const u8, end: *const u8) -> Self {
        let len = end as usize - start as usize;
        // SAFETY: the caller's promise; text is never written.
        let code = unsafe { std::slice::from_raw_parts(start, len) }.to_vec();
        Self { code, mark: mark as usize - start as usize }
    }
}

/// Assembles a program. Labels are numbers from 4 on; `9:` marks the instruction under test. Constants follow the
/// instructions.
macro_rules! program {
    ($($line:literal),+ $(; $($name:ident = $value:expr),+)? $(,)?) => {{
        let (start, mark, end): (*const u8, *const u8, *const u8);
        // SAFETY: takes three addresses and jumps over everything else.
        unsafe {
            asm!(
                "lea {start}, [rip + 2f]",
                "lea {mark}, [rip + 9f]",
                "lea {end}, [rip + 3f]",
                "jmp 3f",
                "2:",
                $($line,)+
                "3:",
                start = out(reg) start,
                mark = out(reg) mark,
                end = out(reg) end,
                $($($name = const $value,)+)?
                options(nomem, nostack, preserves_flags),
            );
        }
        // SAFETY: the labels enclose the instructions.
        unsafe { Program::copy(start, mark, end) }
    }};
}

/// Runs one instruction, or a few of which the last one is marked, and then spins.
macro_rules! then_spin {
    ($($line:literal),+ $(; $($name:ident = $value:expr),+)?) => {
        program!($($line,)+ "8: jmp 8b" $(; $($name = $value),+)?)
    };
}

/// Reads page 0, which no guest has.
pub fn reads_null() -> Program {
    then_spin!("xor eax, eax", "9: mov rax, [rax]")
}

/// Writes to page 0.
pub fn writes_null() -> Program {
    then_spin!("xor eax, eax", "9: mov [rax], rax")
}

/// Jumps to page 0; no instruction of its own is at fault.
pub fn jumps_to_null() -> Program {
    then_spin!("xor eax, eax", "9: jmp rax")
}

/// Executes its stack.
pub fn executes_stack() -> Program {
    then_spin!("lea rax, [rsp - 64]", "9: jmp rax")
}

/// Writes to its own instructions.
pub fn writes_text() -> Program {
    then_spin!("lea rax, [rip]", "9: mov [rax], rax")
}

/// Writes to the monitor's descriptor tables.
pub fn writes_descriptors() -> Program {
    then_spin!("mov eax, {gdt}", "9: mov [rax], rax"; gdt = stile_machine::unikernel::layout::GDT)
}

/// Reads an address that is none.
pub fn reads_non_canonical() -> Program {
    then_spin!("mov rax, 1", "shl rax, 63", "9: mov rax, [rax]")
}

/// Divides by zero.
pub fn divides_by_zero() -> Program {
    then_spin!("xor ecx, ecx", "9: div ecx")
}

/// Executes an instruction that is none.
pub fn undefined_instruction() -> Program {
    then_spin!("9: ud2")
}

/// Executes a breakpoint; the mark is behind it, where the CPU reports it.
pub fn breakpoint() -> Program {
    then_spin!("int3", "9: nop")
}

/// Raises an interrupt that has no gate.
pub fn interrupt_without_gate() -> Program {
    then_spin!("9: int 0x40")
}

/// Raises the page fault's interrupt itself, whose gate is not for programs.
pub fn forges_page_fault() -> Program {
    then_spin!("9: int 14")
}

/// Halts.
pub fn halts() -> Program {
    then_spin!("9: hlt")
}

/// Loads an empty interrupt table.
pub fn loads_interrupt_table() -> Program {
    then_spin!("push 0", "push 0", "9: lidt [rsp]")
}

/// Switches paging off.
pub fn writes_control_register() -> Program {
    then_spin!("xor eax, eax", "9: mov cr0, rax")
}

/// Pushes until the stack is used up.
pub fn overflows_stack() -> Program {
    program!("9: push rax", "jmp 9b")
}

/// Masks interrupts, where the host lets it, and computes for good.
pub fn spins_with_interrupts_off() -> Program {
    program!("9: cli", "4: jmp 4b")
}

/// Only the vCPU with index 2 executes an undefined instruction; the others compute.
pub fn third_vcpu_faults() -> Program {
    then_spin!("cmp esi, 2", "jne 8f", "9: ud2")
}

/// Writes 32 bits to a port.
pub fn writes_port(port: u16, value: u32) -> Program {
    let mut program = then_spin!("mov edx, 0x55555555", "mov eax, 0x66666666", "9: out dx, eax");
    program.patch(0x5555_5555, u32::from(port));
    program.patch(0x6666_6666, value);
    program
}

/// Writes 16 bits to a port.
pub fn writes_port_halfway(port: u16) -> Program {
    let mut program = then_spin!("mov edx, 0x55555555", "9: out dx, ax");
    program.patch(0x5555_5555, u32::from(port));
    program
}

/// Reads a byte from a port.
pub fn reads_port(port: u16) -> Program {
    let mut program = then_spin!("mov edx, 0x55555555", "9: in al, dx");
    program.patch(0x5555_5555, u32::from(port));
    program
}

/// Writes a byte to a port.
pub fn writes_port_byte(port: u16) -> Program {
    let mut program = then_spin!("mov edx, 0x55555555", "9: out dx, al");
    program.patch(0x5555_5555, u32::from(port));
    program
}

/// Rings a doorbell with this value and these arguments in the call block, sign-extended to 64 bits.
pub fn rings(port: u16, value: u32, arguments: [i32; 3]) -> Program {
    let mut program = then_spin!(
        "mov rbx, [rdi + {calls}]",
        "mov qword ptr [rbx], 0x11111111",
        "mov qword ptr [rbx + 8], 0x22222222",
        "mov qword ptr [rbx + 16], 0x33333333",
        "mov edx, 0x55555555",
        "mov eax, 0x66666666",
        "9: out dx, eax";
        calls = offset_of!(BootInfo, calls)
    );
    let places = [0x1111_1111, 0x2222_2222, 0x3333_3333];
    places.into_iter().zip(arguments).for_each(|(place, argument)| program.patch(place, argument as u32));
    program.patch(0x5555_5555, u32::from(port));
    program.patch(0x6666_6666, value);
    program
}

/// Reports results without end, under a name that would clear a terminal.
pub fn reports_without_end() -> Program {
    program!(
        "mov rbx, [rdi + {calls}]",
        "mov dword ptr [rsp - 8], {name}",
        "lea rax, [rsp - 8]",
        "mov [rbx], rax",
        "mov qword ptr [rbx + 8], 4",
        "mov qword ptr [rbx + 16], 7",
        "4:",
        "mov edx, {result}",
        "9: out dx, eax",
        "jmp 4b";
        calls = offset_of!(BootInfo, calls),
        name = u32::from_le_bytes(*b"\x1b[2J"),
        result = port::RESULT
    )
}

/// Reads the first register of its device.
pub fn reads_device() -> Program {
    then_spin!("mov rax, [rdi + {device}]", "9: mov eax, [rax]"; device = offset_of!(BootInfo, device_mmio))
}

/// Counts an operation, idles until an event, again and again.
pub fn steps_at_events() -> Program {
    program!(
        "mov rbx, [rdi + {calls}]",
        "mov rcx, [rdi + {gauges}]",
        "mov qword ptr [rbx], -1",
        "4:",
        "inc qword ptr [rcx + {ops}]",
        "mov edx, {idle}",
        "xor eax, eax",
        "9: out dx, eax",
        "jmp 4b";
        calls = offset_of!(BootInfo, calls),
        gauges = offset_of!(BootInfo, gauges),
        ops = offset_of!(Gauge, ops),
        idle = port::IDLE
    )
}

/// vCPUs in a ring: each idles until it is its turn, counts an operation, and hands the turn to the next with a kick.
pub fn passes_turn_on() -> Program {
    program!(
        // rbx: call block, rcx: gauge, r8: next vCPU, r9: whether it has the turn; vCPU 0 has it first.
        "mov rbx, rsi",
        "imul rbx, rbx, {call_size}",
        "add rbx, [rdi + {calls}]",
        "mov qword ptr [rbx], -1",
        "mov r9, [rdi + {gauges}]",
        "mov rcx, rsi",
        "imul rcx, rcx, {gauge_size}",
        "add rcx, r9",
        "add r9, {spare}",
        "lea r8d, [rsi + 1]",
        "xor eax, eax",
        "cmp r8d, [rdi + {vcpus}]",
        "cmove r8d, eax",
        "jmp 5f",
        "4:",
        "mov edx, {idle}",
        "xor eax, eax",
        "out dx, eax",
        "5:",
        "cmp [r9], rsi",
        "jne 4b",
        "inc qword ptr [rcx + {ops}]",
        "mov [r9], r8",
        "mov edx, {kick}",
        "mov eax, r8d",
        "9: out dx, eax",
        "jmp 5b";
        call_size = size_of::<CallBlock>(),
        calls = offset_of!(BootInfo, calls),
        gauge_size = size_of::<Gauge>(),
        gauges = offset_of!(BootInfo, gauges),
        vcpus = offset_of!(BootInfo, vcpus),
        ops = offset_of!(Gauge, ops),
        spare = offset_of!(Gauge, spare),
        idle = port::IDLE,
        kick = port::KICK
    )
}

/// Kicks all other vCPUs and counts it, without end.
pub fn kicks_all_others() -> Program {
    program!(
        "mov rcx, rsi",
        "imul rcx, rcx, {gauge_size}",
        "add rcx, [rdi + {gauges}]",
        "4:",
        "inc qword ptr [rcx + {ops}]",
        "mov edx, {kick}",
        "mov eax, {others}",
        "9: out dx, eax",
        "jmp 4b";
        gauge_size = size_of::<Gauge>(),
        gauges = offset_of!(BootInfo, gauges),
        ops = offset_of!(Gauge, ops),
        kick = port::KICK,
        others = KICK_OTHERS
    )
}

impl Program {
    /// Replaces a constant that stands for a value known only at run time.
    fn patch(&mut self, place: u32, value: u32) {
        let at = self.code.windows(4).position(|bytes| bytes == place.to_le_bytes());
        let at = at.expect("the instructions hold the constant as 32 bits");
        self.code[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_the_instruction_and_nothing_of_the_host_is_copied() {
        let program = undefined_instruction();
        assert_eq!(program.code, [0x0f, 0x0b, 0xeb, 0xfe]);
        assert_eq!(program.mark(), IMAGE_MIN_GPA);
        assert_eq!(breakpoint().mark(), IMAGE_MIN_GPA + 1);
    }

    #[test]
    fn a_patched_program_holds_the_value() {
        assert_eq!(
            writes_port(0x123, 7).code,
            [
                0xba, 0x23, 0x01, 0, 0, // mov edx, 0x123
                0xb8, 7, 0, 0, 0,    // mov eax, 7
                0xef, // out dx, eax
                0xeb, 0xfe, // jmp $
            ]
        );
    }
}
