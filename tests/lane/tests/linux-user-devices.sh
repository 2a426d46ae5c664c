#!/bin/sh
# Devices of Linux guests with their interrupt controllers in user space, carried by executors: a disk, and the switch between
# two guests and a unikernel.
#
# limit: 600
# needs: linux-guest
. /lane/linux.sh
in_user_space executors

truncate -s 8M disk.img
for orders in "write /dev/vda 8M 7" "check /dev/vda 8M 7; echo it holds"; do
    { policy rsdl; configure linux 1 "$orders"; echo 'disk = "disk.img"'; } >guest.toml
    stile run guest.toml >output 2>&1 || { cat output; exit 1; }
done
grep -q "^it holds" output || { cat output; exit 1; }

# meets OWN OTHER: the orders of a guest with the address OWN that waits until OTHER is there, reaches it, and stays until it
# was reached.
meets() {
    echo "ip addr add $1/16 dev eth0; ip link set eth0 up; arping -f -w 120 -I eth0 $2; ping -c 3 $2; idle 10"
}
{
    policy rsdl
    configure a 1 "$(meets 10.0.0.1 10.0.0.2)"
    echo 'network = "lan"'
    configure b 1 "$(meets 10.0.0.2 10.0.0.1)"
    echo 'network = "lan"'
    printf '[[vm]]\nname = "probe"\nimage = "builtin:hello"\n'
} >guest.toml
stile run guest.toml >output 2>&1 || { cat output; exit 1; }
cat output
[ "$(grep -c " 0% packet loss" output)" = 2 ]
