#!/bin/sh
# Two Linux guests reach each other through the switch, and a guest and its host through a tap.
#
# limit: 600
# needs: linux-guest
. /lane/linux.sh

# meets OWN OTHER: the orders of a guest with the address OWN that waits until OTHER is there, reaches it, and stays until it
# was reached.
meets() {
    echo "ip addr add $1/16 dev eth0; ip link set eth0 up; arping -f -w 60 -I eth0 $2; ping -c 3 $2; idle 10"
}

# What the guests of guest.toml print goes to `output`, too, and each of so many has got its answers.
all_meet() {
    stile run guest.toml >output 2>&1 || { cat output; return 1; }
    cat output
    [ "$(grep -c " 0% packet loss" output)" = "$1" ]
}

for algorithm in host rsdl; do
    echo "-- through the switch under $algorithm"
    {
        policy $algorithm
        configure a 1 "$(meets 10.0.0.1 10.0.0.2)"
        echo 'network = "lan"'
        configure b 1 "$(meets 10.0.0.2 10.0.0.1)"
        echo 'network = "lan"'
    } >guest.toml
    all_meet 2 || exit 1
done

echo "-- through a tap"
tunctl -t tap0 || exit 1
trap 'tunctl -d tap0' EXIT
ip addr add 10.1.0.1/16 dev tap0 && ip link set tap0 up || exit 1
{ policy rsdl; configure a 1 "$(meets 10.1.0.2 10.1.0.1)"; echo 'tap = "tap0"'; } >guest.toml
all_meet 1 || exit 1

echo "-- a tap that is not there"
{ policy rsdl; configure a 1 "true"; echo 'tap = "tap7"'; } >guest.toml
stile check guest.toml >output 2>&1
[ $? = 2 ] && grep -q "ip tuntap add dev tap7" output || { cat output; exit 1; }
