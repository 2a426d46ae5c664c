#!/bin/sh
# Whole-VM tests of unikernels: their events, their faults, and vCPUs that halt inside KVM_RUN.
#
# limit: 600
# needs: whole-vm-tests
set -e
/lane/whole-vm/guests events_that_vcpus_send
/lane/whole-vm/faults stack_overflow none_is masks_interrupts kicks_without_end
/lane/whole-vm/halting
