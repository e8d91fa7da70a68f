# Hosts made of network namespaces, joined by a switch that is one more; sourced
# by tests, needs root and iproute2. Nothing of the machine's own network is
# touched.
#
#   can_make_hosts            false, with the reason in $why_not
#   make_hosts N              host_0 ... with the addresses ${address[i]}
#   on_host I COMMAND...      runs it there, under a host name of its own
#   cut_host I, mend_host I   takes its cable out of the switch, and puts it back
#   remove_hosts              (call it when the test ends)
#
# $rsh_agent is what mpirun takes for ssh.
# shellcheck shell=bash disable=SC2034

host_prefix=osdn$$
address=()
rsh_agent=
why_not=

can_make_hosts() {
  local name
  for name in ip unshare nsenter; do
    command -v "$name" >/dev/null || { why_not="there is no program $name" && return 1; }
  done
  [[ $(id -u) -eq 0 ]] || { why_not="network namespaces need root" && return 1; }
  if ! ip netns add "${host_prefix}probe" 2>/dev/null ||
    ! ip -n "${host_prefix}probe" link add up0 type veth peer name up1 2>/dev/null ||
    ! ip -n "${host_prefix}probe" link add br0 type bridge 2>/dev/null; then
    why_not="this machine lets us make no network namespaces, or no bridge in them"
  fi
  ip netns del "${host_prefix}probe" 2>/dev/null || true
  [[ -z $why_not ]]
}

# make_hosts N FOLDER: FOLDER takes the agent.
make_hosts() {
  local i
  local switch=${host_prefix}switch
  ip netns add "$switch"
  ip -n "$switch" link add br0 type bridge forward_delay 0
  ip -n "$switch" link set br0 up
  for ((i = 0; i < $1; ++i)); do
    address[i]=10.213.77.$((i + 1))
    ip netns add "$host_prefix-$i"
    ip -n "$host_prefix-$i" link add net0 type veth peer name "port$i" netns "$switch"
    ip -n "$switch" link set "port$i" master br0 up
    ip -n "$host_prefix-$i" link set lo up
    ip -n "$host_prefix-$i" addr add "${address[i]}/24" dev net0
    ip -n "$host_prefix-$i" link set net0 up
  done
  rsh_agent=$2/agent
  cat >"$rsh_agent" <<END
#!/bin/sh
# As ssh: HOST COMMAND...
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$((\${1##*.} - 1))
shift
exec ip netns exec "$host_prefix-\$host" unshare --uts \\
  sh -c "hostname host-\$host; \$*"
END
  chmod +x "$rsh_agent"
}

on_host() {
  local i=$1
  shift
  # shellcheck disable=SC2016
  ip netns exec "$host_prefix-$i" unshare --uts \
    sh -c 'hostname "$1"; shift; exec "$@"' sh "host-$i" "$@"
}

cut_host() { ip -n "${host_prefix}switch" link set "port$1" down; }
mend_host() { ip -n "${host_prefix}switch" link set "port$1" up; }

remove_hosts() {
  local name rest
  while read -r name rest; do
    [[ $name != "$host_prefix"* ]] || ip netns del "$name"
  done < <(ip netns list)
}
