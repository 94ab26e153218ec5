"""The keywords of ssh_config (OpenSSH 9.2 and what 9.9 added), by what this tool does with each."""

# ruff: noqa: SIM905 - words in a block read better than eighty quoted ones

from __future__ import annotations

HONOURED = frozenset("""
addressfamily batchmode bindaddress bindinterface canonicaldomains canonicalizefallbacklocal canonicalizehostname
canonicalizemaxdots certificatefile ciphers connectionattempts connecttimeout globalknownhostsfile hashknownhosts
hostkeyalgorithms hostkeyalias hostname identitiesonly identityagent identityfile ignoreunknown
kbdinteractiveauthentication kexalgorithms macs numberofpasswordprompts passwordauthentication port
preferredauthentications proxycommand proxyjump pubkeyacceptedalgorithms pubkeyauthentication revokedhostkeys
serveralivecountmax serveraliveinterval stricthostkeychecking tag user userknownhostsfile
""".split())

ALIASES = {
    "challengeresponseauthentication": "kbdinteractiveauthentication",
    "skeyauthentication": "kbdinteractiveauthentication",
    "tisauthentication": "kbdinteractiveauthentication",
    "dsaauthentication": "pubkeyauthentication",
    "hostbasedkeytypes": "hostbasedacceptedalgorithms",
    "pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms",
    "smartcarddevice": "pkcs11provider",
}

HARMLESS = frozenset("""
addkeystoagent channeltimeout checkhostip cipher clearallforwardings compression compressionlevel controlmaster
controlpath controlpersist dynamicforward enableescapecommandline enablesshkeysign escapechar exitonforwardfailure
fallbacktorsh fingerprinthash forkafterauthentication forwardagent forwardx11 forwardx11timeout forwardx11trusted
gatewayports globalknownhostsfile2 gssapiauthentication gssapiclientidentity gssapidelegatecredentials
gssapikexalgorithms gssapikeyexchange gssapirenewalforcesrekey gssapiserveridentity gssapitrustdns
hostbasedacceptedalgorithms hostbasedauthentication identityfile2 ipqos keepalive kerberosauthentication
kerberostgtpassing localcommand localforward loglevel logverbose nohostauthenticationforlocalhost
obscurekeystroketiming permitlocalcommand permitremoteopen protocol refuseconnection rekeylimit remotecommand
remoteforward requesttty rhostsauthentication rhostsrsaauthentication rsaauthentication securitykeyprovider sendenv
serveralivecountmax sessiontype setenv stdinnull streamlocalbindmask streamlocalbindunlink syslogfacility
tcpkeepalive tunnel tunneldevice updatehostkeys useprivilegedport userknownhostsfile2 usekeychain verifyhostkeydns
versionaddendum visualhostkey warnweakcrypto xauthlocation
""".split())
"""What changes neither who is trusted nor the way there, or only adds trust that is simply not given here."""

UNSUPPORTED = {
    "canonicalizepermittedcnames": "names are not followed through CNAME records",
    "casignaturealgorithms": "the algorithms of host certificate authorities are not narrowed by it",
    "knownhostscommand": "host keys are read from files only",
    "pkcs11provider": "keys on PKCS#11 tokens are used through ssh-agent only (`ssh-add -s PROVIDER`)",
    "proxyusefdpass": "a ProxyCommand that passes a descriptor is not supported",
    "requiredrsasize": "the size of RSA keys is not checked",
}
