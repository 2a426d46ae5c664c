#!/bin/sh
# stile compare boot: a Linux guest comes to its first process under both schedulers, and in QEMU's microvm machine.
#
# limit: 600
# needs: linux-guest qemu
. /lane/linux.sh
compares boot --vms 1 --duration 0.1 --setup 1x256M && has_figures boot monitor_per_vm && [ "$(policies)" = "host qemu-microvm rsdl " ]
