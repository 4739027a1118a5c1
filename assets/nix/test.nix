# A NixOS virtual machine in which the service runs as the module makes it, and plays a channel.
self:
{ pkgs, ... }:
{
  name = "hearthcast";

  nodes.machine = {
    imports = [ self.nixosModules.default ];
    environment.systemPackages = [
      pkgs.curl
      pkgs.ffmpeg
    ];
    services.hearthcast = {
      enable = true;
      roots = [ "/srv/films" ];
      settings.limits.concurrent_jobs = 1;
    };
    systemd.tmpfiles.rules = [ "d /srv/films 0755 root root" ];
    virtualisation.memorySize = 2048;
  };

  testScript = ''
    import json

    server = "http://127.0.0.1:8470"

    def post(path, body, token=""):
        head = f"-H 'Authorization: Bearer {token}'" if token else ""
        return machine.succeed(f"curl --fail --silent {head} --json '{body}' {server}{path}").strip()

    machine.wait_for_unit("hearthcast.service")
    machine.succeed(
        "ffmpeg -loglevel error -f lavfi -i testsrc2=size=640x360:rate=25 -f lavfi -i sine -t 60 "
        "-c:v libx264 -preset ultrafast -c:a aac /srv/films/Ember.mp4"
    )
    machine.succeed("hearthcast health")
    machine.succeed("systemctl show --property=NotifyAccess,WatchdogUSec hearthcast | grep WatchdogUSec=2min")

    code = machine.succeed("cat /var/lib/hearthcast/setup-code").strip()
    account = f'{{"code": "{code}", "username": "ada", "password": "correct horse"}}'
    token = json.loads(post("/api/auth/setup", account))["token"]
    channel = '{"name": "Hearth", "scheduleMode": "sequential", "items": [{"path": "/srv/films/Ember.mp4"}]}'
    number = json.loads(post("/api/livetv/channels", channel, token))["channel"]["id"]
    # Ten seconds of the channel, decoded.
    machine.succeed(
        f"ffmpeg -loglevel error -headers 'Authorization: Bearer {token}' "
        f"-i '{server}/api/livetv/watch/{number}?wait=15' -t 10 -f null -"
    )

    # The configuration is read again without a restart.
    before = machine.succeed("systemctl show --property=MainPID hearthcast")
    machine.succeed("systemctl reload hearthcast")
    assert machine.succeed("systemctl show --property=MainPID hearthcast") == before
    machine.succeed("hearthcast health")
  '';
}
