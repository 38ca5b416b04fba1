#!/bin/bash
# cluster-in-a-box: several "hosts" on one Linux machine, joined by a bridge.
#
# Each host is one process tree with its own network, UTS (host name), mount,
# IPC and PID namespace, its own /dev/shm, /sys, /run, /tmp, /etc/hosts and
# sshd on port 22. The bridge lives in a network namespace of its own, so the machine's
# root namespace is not touched and several clusters (CIAB=name) can coexist.
# Needs: root, iproute2, util-linux, procps, openssh-server; nftables for `loss` and `block`,
# python3 for `delay`.
#
#   up [N]              start hosts host1..hostN (default 3), 10.77.0.1..N on eth0
#   down                kill every host of this cluster and remove it
#   status              one line a host
#   exec HOST CMD...    run CMD in HOST (no ssh), in the same directory if HOST has it
#   crash HOST          power off: every process of HOST dies at once, no FIN is sent
#   boot HOST           start a crashed host again
#   freeze|thaw HOST    SIGSTOP / SIGCONT every process of HOST (a hung machine)
#   cut|heal HOST       unplug / replug HOST's cable: packets vanish, no RST
#   rate HOST RATE|off  limit HOST to RATE (tbf: 100mbit, 1gbit) in both directions
#   delay HOST MS|off   hold every packet from and to HOST back for MS milliseconds
#                       (delay-wire.py beside this script: the kernel has no netem)
#   loss HOST PCT|off   drop PCT % of the packets HOST receives (nft)
#   block A B           drop packets between A and B only (nft)
#   block1 A B          drop packets from A to B only: a one-way fault
#   unblock             lift all blocks
#   without HOST FILE   remove FILE from HOST's own view of the disk, e.g. /usr/bin/node
#   folder              the state directory; folder/shared is the same on all hosts
#
# Settings: CIAB (cluster name, default "a"),
# CIAB_DECOY=1 (also give every host a docker0 with the same 172.17.0.1/16, as real hosts
# have: a trap for NIC discovery), CIAB_SUBNET2=1 (a second network 10.78.0.N on eth1),
# CIAB_IPV6=1 (also fd77::N on eth0) or CIAB_IPV6=only (no IPv4 besides loopback),
# CIAB_SHARED_TMP=1 (do not give every host its own /tmp), CIAB_SHM (size of /dev/shm).
set -euo pipefail

C=${CIAB:-a}
STATE=/var/tmp/ciab/$C
SW=ciab-$C-switch
NET=10.77.0
NET2=10.78.0
NET6=fd77:
V6=${CIAB_IPV6:-}
SELF=$(readlink -f "$0")

die() { echo "ciab: $*" >&2; exit 1; }
hosts() { if [ -d "$STATE/hosts" ]; then ls -v "$STATE/hosts"; fi; }
index() { if [ -d "$STATE/hosts/$1" ]; then echo "${1#host}"; else die "no host $1"; fi; }

address() { if [ "$(cat "$STATE/ipv6")" = only ]; then echo "$NET6:$1"; else echo "$NET.$1"; fi; }
mac() { printf 02:00:00:00:77:%02x "$(index "$1")"; }

# The pid (in the machine's PID namespace) of a host's init, if it is alive.
init_pid() {
  local pid
  pid=$(cat "$STATE/hosts/$1/pid" 2>/dev/null) || return 1
  { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -q " __init $1 $C \$" && echo "$pid"
}
live_pid() { init_pid "$1" || die "$1 is not running"; }

# Every process in a host's network namespace, with the waiting nsenter of `exec`,
# which is in the machine's PID namespace and stops itself when its child is stopped.
all_pids() {
  local p ns; ns=$(readlink "/proc/$(live_pid "$1")/ns/net")
  for p in /proc/[0-9]*; do
    [ "$(readlink "$p/ns/net" 2>/dev/null)" != "$ns" ] || echo "${p#/proc/}"
  done
}

# Runs as PID 1 of a host, inside its namespaces.
host_init() {
  local h=$1 dir=$STATE/hosts/$1
  hostname "$h"
  mount -t tmpfs -o "size=${CIAB_SHM:-1g},mode=1777" shm /dev/shm
  mount -t mqueue mqueue /dev/mqueue 2>/dev/null || true
  # /sys shows the network devices of the namespace it was mounted in; keep the cgroups.
  mkdir -p "$dir/cgroup"
  mount --rbind /sys/fs/cgroup "$dir/cgroup"
  mount -t sysfs sysfs /sys
  mount --move "$dir/cgroup" /sys/fs/cgroup
  mount -t tmpfs -o mode=755 run /run
  mkdir -p /run/sshd /run/lock
  [ -n "${CIAB_SHARED_TMP:-}" ] || mount -t tmpfs -o mode=1777 tmp /tmp
  mount --bind "$STATE/etc-ssh" /etc/ssh
  mount --bind "$STATE/etc-hosts" /etc/hosts
  echo "$h" >"$dir/hostname"
  mount --bind "$dir/hostname" /etc/hostname
  cat /proc/sys/kernel/random/uuid >"$dir/boot_id" # what tells two machines, or two boots, apart
  mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
  ip link set lo up
  echo ready >"$dir/ready"
  until [ -e "$dir/plugged" ]; do sleep 0.05; done
  /usr/sbin/sshd -D -e &
  # bash, as PID 1, also reaps the orphans of this host.
  while :; do sleep 3600 & wait $! || true; done
}

boot() {
  local h=$1 i dir=$STATE/hosts/$1 p
  i=$(index "$h")
  ! init_pid "$h" >/dev/null || die "$h is already running"
  rm -f "$dir/ready" "$dir/plugged"
  # A new session and no inherited descriptors: the host outlives this script.
  setsid unshare -n -u -m -i -p -f --mount-proc \
    bash "$SELF" __init "$h" "$C" </dev/null >>"$dir/log" 2>&1 &
  local u=$!
  for _ in $(seq 200); do [ -e "$dir/ready" ] && break; sleep 0.05; done
  [ -e "$dir/ready" ] || die "$h did not start: see $dir/log"
  p=$(pgrep -P "$u")
  echo "$p" >"$dir/pid"
  # A fixed MAC address: a host that boots again must still be found in its peers' ARP caches.
  ip link add "veth$i" netns "$SW" type veth \
    peer name eth0 address "$(mac "$h")" netns "/proc/$p/ns/net"
  ip -n "$SW" link set "veth$i" master br0 up
  [ "$V6" = only ] || nsenter -t "$p" -n ip addr add "$NET.$i/24" dev eth0
  # nodad: the address is to be usable at once
  [ -z "$V6" ] || nsenter -t "$p" -n ip addr add "$NET6:$i/64" dev eth0 nodad
  nsenter -t "$p" -n ip link set eth0 up
  if [ -n "${CIAB_SUBNET2:-}" ]; then
    ip link add "vetx$i" netns "$SW" type veth peer name eth1 netns "/proc/$p/ns/net"
    ip -n "$SW" link set "vetx$i" master br1 up
    nsenter -t "$p" -n ip addr add "$NET2.$i/24" dev eth1
    nsenter -t "$p" -n ip link set eth1 up
  fi
  if [ -n "${CIAB_DECOY:-}" ]; then
    nsenter -t "$p" -n ip link add docker0 type bridge
    nsenter -t "$p" -n ip addr add 172.17.0.1/16 dev docker0
    nsenter -t "$p" -n ip link set docker0 up
  fi
  echo plugged >"$dir/plugged"
  for _ in $(seq 200); do
    nsenter -t "$p" -n bash -c ": </dev/tcp/$(address "$i")/22" 2>/dev/null && return
    sleep 0.05
  done
  die "sshd of $h does not answer: see $dir/log"
}

# Unplugs first, so that no FIN or RST of the dying sockets gets out. Those sockets
# keep the network namespace alive for a while, so its veth pair is deleted by hand.
crash() {
  local p; p=$(live_pid "$1")
  undelay "$1"
  ip -n "$SW" link del "veth$(index "$1")"
  ip -n "$SW" link del "vetx$(index "$1")" 2>/dev/null || true
  kill -KILL "$p"
  while [ -e "/proc/$p" ]; do sleep 0.02; done
}

up() {
  local n=${1:-3} i
  [ ! -e "$STATE" ] || die "cluster $C exists: run down first"
  mkdir -p "$STATE/etc-ssh" "$STATE/shared"
  echo "$V6" >"$STATE/ipv6"
  ssh-keygen -q -t ed25519 -N '' -f "$STATE/etc-ssh/ssh_host_ed25519_key"
  ssh-keygen -q -t ed25519 -N '' -f "$STATE/etc-ssh/id_cluster"
  cp "$STATE/etc-ssh/id_cluster.pub" "$STATE/etc-ssh/authorized_keys"
  cat >"$STATE/etc-ssh/sshd_config" <<-X
	HostKey /etc/ssh/ssh_host_ed25519_key
	AuthorizedKeysFile /etc/ssh/authorized_keys
	PermitRootLogin prohibit-password
	PasswordAuthentication no
	UsePAM no
	UseDNS no
	StrictModes no
	MaxStartups 200
	MaxSessions 100
	PrintMotd no
	Subsystem sftp internal-sftp
	X
  cat >"$STATE/etc-ssh/ssh_config" <<-X
	Host *
	  IdentityFile /etc/ssh/id_cluster
	  StrictHostKeyChecking no
	  UserKnownHostsFile /dev/null
	  LogLevel ERROR
	X
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$STATE/etc-hosts"
  for i in $(seq "$n"); do
    echo "$(address "$i") host$i" >>"$STATE/etc-hosts"
    mkdir -p "$STATE/hosts/host$i"
  done
  ip netns add "$SW"
  ip -n "$SW" link add br0 type bridge forward_delay 0 stp_state 0
  ip -n "$SW" link set br0 up
  if [ -n "${CIAB_SUBNET2:-}" ]; then
    ip -n "$SW" link add br1 type bridge forward_delay 0 stp_state 0
    ip -n "$SW" link set br1 up
  fi
  for i in $(seq "$n"); do boot "host$i"; done
}

undelay() {
  local i p; i=$(index "$1")
  p=$(cat "$STATE/hosts/$1/delay" 2>/dev/null) || return 0
  rm "$STATE/hosts/$1/delay"
  ! grep -qs delay-wire.py "/proc/$p/cmdline" || kill "$p"
  ip -n "$SW" link del "brd$i" 2>/dev/null || true
  ip -n "$SW" link set "veth$i" master br0 2>/dev/null || true
}

down() {
  local h p
  for h in $(hosts); do
    undelay "$h"
    if p=$(init_pid "$h"); then kill -KILL "$p"; fi
  done
  ip netns del "$SW" 2>/dev/null || true
  rm -rf "$STATE"
}

drops() { # (re)load the switch's nft rules from the state directory
  command -v nft >/dev/null || die "needs: apt-get install nftables"
  ip netns exec "$SW" nft -f - <<-X
	table bridge ciab
	delete table bridge ciab
	table bridge ciab {
	  chain f {
	    type filter hook forward priority 0;
	$(cat "$STATE"/drop.* 2>/dev/null)
	  }
	}
	X
}

cmd=${1:-}; shift || true
case $cmd in
  __init) host_init "$1" ;;
  up) up "$@" ;;
  down) down ;;
  status)
    for h in $(hosts); do
      if p=$(init_pid "$h"); then s="up pid $p link $(ip -n "$SW" -br link show "veth$(index "$h")" | awk '{print $2}')"; else s=down; fi
      echo "$h $(address "$(index "$h")") $s"
    done ;;
  exec)
    h=$1; shift
    p=$(live_pid "$h")
    wd=$PWD; [ -d "/proc/$p/root$wd" ] || wd=/ # e.g. a directory below /tmp
    # Killing this command (timeout, Ctrl-C) must end CMD too, across the PID namespaces.
    exec nsenter -t "$p" -m -u -i -n -p --wdns="$wd" setpriv --pdeathsig TERM "$@" ;;
  crash) crash "$1" ;;
  boot) boot "$1" ;;
  freeze) all_pids "$1" | xargs -r kill -STOP ;;
  thaw) all_pids "$1" | xargs -r kill -CONT ;;
  cut) ip -n "$SW" link set "veth$(index "$1")" down ;;
  heal) ip -n "$SW" link set "veth$(index "$1")" up ;;
  folder) echo "$STATE" ;;
  without)
    # An overlay of the file's folder, with the file taken away in the upper layer.
    p=$(live_pid "$1") f=$2
    # shellcheck disable=SC2016
    exec nsenter -t "$p" -m -u -i -n -p bash -ec '
      d=$(dirname "$1") u=$(mktemp -d /run/overlay.XXXXXX)
      mkdir "$u/upper" "$u/work"
      mount -t overlay -o "lowerdir=$d,upperdir=$u/upper,workdir=$u/work" overlay "$d"
      rm "$1"' _ "$f" ;;
  rate)
    out=(nsenter -t "$(live_pid "$1")" -n tc qdisc) dev=eth0
    for _ in 1 2; do
      if [ "$2" = off ]; then "${out[@]}" del dev "$dev" root 2>/dev/null || true
      else "${out[@]}" replace dev "$dev" root tbf rate "$2" burst 256kb latency 50ms; fi
      out=(tc -n "$SW" qdisc) dev=veth$(index "$1")
    done ;;
  delay)
    i=$(index "$1"); undelay "$1"
    if [ "$2" != off ]; then
      setsid ip netns exec "$SW" python3 "${SELF%/*}/delay-wire.py" "wa$i" "wb$i" "$2" \
        </dev/null >/dev/null 2>>"$STATE/hosts/$1/log" & echo $! >"$STATE/hosts/$1/delay"
      until ip -n "$SW" link show "wb$i" >/dev/null 2>&1; do
        kill -0 "$(cat "$STATE/hosts/$1/delay")" || die "see $STATE/hosts/$1/log"; sleep 0.02
      done
      ip -n "$SW" link add "brd$i" type bridge forward_delay 0 stp_state 0
      ip -n "$SW" link set "brd$i" up
      ip -n "$SW" link set "veth$i" master "brd$i"
      ip -n "$SW" link set "wa$i" master "brd$i" up
      ip -n "$SW" link set "wb$i" master br0 up
    fi ;;
  loss)
    if [ "$2" = off ]; then rm -f "$STATE/drop.loss-$1"
    else echo "oifname veth$(index "$1") numgen random mod 1000 < $(awk "BEGIN{print int($2*10)}") drop" >"$STATE/drop.loss-$1"; fi
    drops ;;
  block)
    a=$(mac "$1"); b=$(mac "$2")
    printf 'ether saddr %s ether daddr %s drop\n' "$a" "$b" "$b" "$a" >"$STATE/drop.block-$1-$2"
    drops ;;
  block1)
    printf 'ether saddr %s ether daddr %s drop\n' "$(mac "$1")" "$(mac "$2")" >"$STATE/drop.block-$1-$2"
    drops ;;
  unblock) rm -f "$STATE"/drop.block-*; drops ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p}' "$SELF"; exit 2 ;;
esac
