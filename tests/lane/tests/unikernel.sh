#!/bin/sh
# Unikernels under the host's scheduler and rsdl, and under every way to carry vCPUs.
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
/lane/whole-vm/guests hello_of_any_size the_command_line_reaches
