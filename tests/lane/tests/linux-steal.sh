#!/bin/sh
# A Linux guest reads as steal time what its vCPUs waited by the ledger and what was taken from them, within 1 %.
#
# limit: 900
# needs: linux-guest
. /lane/linux.sh

# How long the guest computes on both of its vCPUs, beside another that computes on the same pCPU (unit: s).
span=10

# steals POLICY: runs them, and compares the guest's figures with the monitor's.
steals() {
    burn="busybox md5sum /dev/zero &; busybox md5sum /dev/zero &; busybox sleep $span; busybox killall busybox"
    {
        printf '[host]\npcpus = [0]\n\n'
        policy "$1"
        configure guest 2 "$burn; busybox sleep 1; busybox grep cpu /proc/stat; idle"
        printf '[[vm]]\nname = "hog"\nimage = "builtin:hog"\nnice = 5\n'
    } >guest.toml
    rm -f console stats.json
    stile run --stats=1 --stats-json stats.json --console console guest.toml >output 2>&1 &
    monitor=$!
    echo "-- under $1"
    until grep -q 'stile: begin [0-9]* idle' console 2>/dev/null; do
        kill -0 $monitor 2>/dev/null || { cat console output; return 1; }
        sleep 1
    done
    # The guest idles now, and misses nothing more.
    sleep 2
    kill $monitor
    wait $monitor
    cat console
    # In hundredths of a second, the eighth figure; and how long the order took that read it, in microseconds.
    stolen=$(sed -n 's/.*cpu  //p' console | awk '{ print $8 / 100 }')
    took=$(sed -n 's/.*stile: end 5 \([0-9]*\) ok.*/\1/p' console)
    # The figures of the first VM, which come before those of its vCPUs.
    tail -n 1 stats.json | sed 's/.*"vms":\[{//; s/"vcpus".*//' | tr ',' '\n' |
        awk -F: '{ gsub(/"/, ""); print $1, $2 }' >figures
    awk -v stolen="$stolen" -v took="$took" -v span=$span '
        { figure[$1] = $2 }
        END {
            missed = figure["wait_seconds"] + figure["taken_seconds"]
            # What the guest missed after it had read its own figure, its two vCPUs missed before the order ended.
            late = 2 * took / 1e6
            printf "steal %.2f s; it waited %.3f s and had %.3f s taken; told %s s; reading took 2 x %.2f s\n", stolen,
                figure["wait_seconds"], figure["taken_seconds"], figure["steal_published_seconds"], late / 2
            exit !(stolen < 1.01 * missed && stolen > 0.99 * missed - late && missed > span)
        }' figures
}

steals rsdl && steals host
