#!/bin/sh
# Unikernels on SVM with nested paging, under every way to carry vCPUs, their faults, and vCPUs that halt inside KVM_RUN.
#
# limit: 600
# needs: whole-vm-tests
set -e
stile doctor
for algorithm in host rsdl; do
    cat >guests.toml <<TOML
[policy]
algorithm = "$algorithm"

[[vm]]
name = "hello"
image = "builtin:hello"
count = 2
vcpus = 2
TOML
    stile run guests.toml
done
/lane/whole-vm/images
/lane/whole-vm/guests hello_of_any_size the_command_line_reaches events_that_vcpus_send
/lane/whole-vm/faults stack_overflow none_is masks_interrupts kicks_without_end
/lane/whole-vm/halting
