# Runs once in the new root file system: what every test host has in common.
export DEBIAN_FRONTEND=noninteractive

rm -f /etc/ssh/ssh_host_*                       # each host gets a key of its own
cat > /etc/ssh/sshd_config.d/bed.conf <<'END'
HostKey /etc/ssh/ssh_host_ed25519_key
UseDNS no
PermitRootLogin prohibit-password
MaxStartups 100
END

# Three kinds of admin: root, sudo without a password, sudo with one.
useradd --create-home --shell /bin/bash admin
useradd --create-home --shell /bin/bash ops
useradd --system --create-home --home-dir /var/lib/sglang --shell /usr/sbin/nologin sglang
echo 'ops:bed-password' | chpasswd
usermod --password '*' admin
cat > /etc/sudoers.d/bed <<'END'
admin ALL=(ALL:ALL) NOPASSWD: ALL
ops ALL=(ALL:ALL) ALL
Defaults!/usr/local/lib/bed/driver !syslog, !pam_session
ALL ALL=(root) NOPASSWD: /usr/local/lib/bed/driver
END
chmod 0440 /etc/sudoers.d/bed

for home in /root /home/admin /home/ops; do
    install -d -m 0700 "$home/.ssh"
    ln -s /etc/ssh/bed_authorized_keys "$home/.ssh/authorized_keys"
done
chown admin:admin /home/admin/.ssh
chown ops:ops /home/ops/.ssh

# Nothing that wakes up by itself, and a journal that stays small.
systemctl mask --quiet apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer systemd-tmpfiles-clean.timer motd-news.timer getty.target console-getty.service \
    systemd-networkd.service systemd-resolved.service systemd-timesyncd.service systemd-update-utmp.service \
    systemd-update-utmp-runlevel.service logrotate.timer man-db.timer
install -d /etc/systemd/journald.conf.d
cat > /etc/systemd/journald.conf.d/bed.conf <<'END'
[Journal]
SystemMaxUse=64M
SystemMaxFileSize=8M
SyncIntervalSec=1h
END
install -d -m 2755 -g systemd-journal /var/log/journal

cat > /etc/systemd/system/bed-gpu.service <<'END'
[Unit]
Description=Device nodes of the simulated GPUs
DefaultDependencies=no
Before=sysinit.target shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/bed/nodes

[Install]
WantedBy=sysinit.target
END
systemctl enable --quiet bed-gpu.service

rm -rf /var/cache/apt/archives/*.deb /var/lib/apt/lists/* /usr/share/doc /usr/share/man /usr/share/locale
ln -sf /usr/share/zoneinfo/UTC /etc/localtime
: > /etc/machine-id
rm -f /etc/hostname /etc/resolv.conf
