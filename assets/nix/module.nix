# The NixOS module: services.hearthcast. The settings are checked by `hearthcast config check` when the system is built, and the
# service has the restrictions of assets/systemd/hearthcast.service, which is read here.
self:
{
  config,
  lib,
  pkgs,
  ...
}:
let
  cfg = config.services.hearthcast;
  toml = pkgs.formats.toml { };

  # An option for each setting whose type can be checked here; the program checks the others.
  setting =
    type: description:
    lib.mkOption {
      type = lib.types.nullOr type;
      default = null;
      description = "${description} The default of the program if null.";
    };
  number = lib.types.ints.positive;
  encoder = lib.types.enum [
    "auto"
    "on"
    "off"
  ];
  limits = lib.types.submodule {
    freeformType = toml.type;
    options = {
      concurrent_jobs = setting number "How many encodes run at once.";
      sessions_per_user = setting number "Sessions of one user at once.";
      segment_memory_bytes = setting number "Segments kept in memory, bytes.";
      segment_disk_bytes = setting lib.types.ints.unsigned "Segments kept on disk, bytes.";
      connections = setting number "Connections at once.";
    };
  };
  settings = lib.types.submodule {
    freeformType = toml.type;
    options = {
      recordings = setting lib.types.path "The folder for recordings, the only one that is writable.";
      backend = setting (lib.types.enum [
        "auto"
        "gstreamer"
        "ffmpeg"
      ]) "What makes segments.";
      hevc_encoder = setting encoder "Whether sessions are encoded in HEVC for clients that prefer it.";
      av1_encoder = setting encoder "Whether sessions are encoded in AV1 for clients that prefer it.";
      forbidden_encoders = setting (lib.types.listOf lib.types.str) "Hardware encoders and decoders that are never used, or \"hardware\" for all.";
      segment_seconds = setting lib.types.number "Length of a segment, 1 to 6.";
      public_base_url = setting lib.types.str "How the server is reached from outside.";
      allowed_origins = setting (lib.types.listOf lib.types.str) "Other web origins that may use the API.";
      allowed_sources = setting (lib.types.listOf lib.types.str) "Non-global addresses that channels may come from.";
      trusted_proxies = setting (lib.types.listOf lib.types.str) "Proxies whose X-Forwarded-For is trusted.";
      shared_cache = setting lib.types.bool "Whether segments of live channels have addresses that a shared cache can keep.";
      hdhomerun = setting lib.types.bool "Whether channels are also a network tuner.";
      find_marks = setting lib.types.bool "Whether intros and credits are looked for.";
      peer_address = setting lib.types.str "Where the other servers of a PostgreSQL database reach this one.";
      state_ca_file = setting lib.types.str "PEM file with the authorities that are trusted at a PostgreSQL database with sslmode=require.";
      queue = setting lib.types.str "The NATS server through which workers on other machines get work.";
      segments = setting lib.types.str "A store of encoded segments that servers share, s3://bucket/prefix.";
      segments_endpoint = setting lib.types.str "Address of an S3-compatible server other than AWS.";
      segments_region = setting lib.types.str "Region of the store.";
      segments_credentials_file = setting lib.types.str "File with the credentials of the store, outside of the Nix store.";
      otlp_endpoint = setting lib.types.str "An OpenTelemetry collector that receives traces.";
      limits = lib.mkOption {
        type = limits;
        default = { };
        description = "Limits, see LIMITS.md.";
      };
    };
  };

  withoutNull = lib.filterAttrs (_: value: value != null);
  written = withoutNull cfg.settings // {
    inherit (cfg) listen;
    roots = map toString cfg.roots;
    limits = withoutNull (cfg.settings.limits or { });
  };
  unchecked = toml.generate "hearthcast.toml" written;
  # Fails the build of the system with the program's own sentences.
  file = pkgs.runCommand "hearthcast.toml" { } ''
    ${lib.getExe cfg.package} config check --settings-only --config ${unchecked} --state /var/lib/hearthcast
    cp ${unchecked} $out
  '';
  recordings = lib.optional (cfg.settings.recordings or null != null) (toString cfg.settings.recordings);
  port = lib.toInt (lib.last (lib.splitString ":" cfg.listen));

  # The section [Service] of the unit: each key with its value, or with the list of its values if it occurs several times.
  unit = builtins.readFile ../systemd/hearthcast.service;
  section = lib.last (lib.splitString "[Service]" (builtins.head (lib.splitString "[Install]" unit)));
  assignments = builtins.filter (match: match != null) (
    map (builtins.match "([A-Z][A-Za-z]*)=(.*)") (lib.splitString "\n" section)
  );
  oneOrAll = values: if builtins.length values == 1 then builtins.head values else values;
  unitConfig = builtins.mapAttrs (_: matches: oneOrAll (map lib.last matches)) (
    builtins.groupBy builtins.head assignments
  );
  gpuConfig = {
    PrivateDevices = false;
    DeviceAllow = [ "char-drm rw" ];
    SupplementaryGroups = [
      "media"
      "video"
      "render"
    ];
  };
in
{
  options.services.hearthcast = {
    enable = lib.mkEnableOption "the Hearthcast media server";
    package = lib.mkOption {
      type = lib.types.package;
      default = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
      description = "The package to run.";
    };
    listen = lib.mkOption {
      type = lib.types.str;
      default = "127.0.0.1:8470";
      example = "0.0.0.0:8470";
      description = "Address and port to listen on.";
    };
    roots = lib.mkOption {
      type = lib.types.listOf lib.types.path;
      default = [ ];
      example = [ "/srv/films" ];
      description = "Library folders, read only. The group `media` must be able to read them.";
    };
    openFirewall = lib.mkOption {
      type = lib.types.bool;
      default = false;
      description = "Whether to open the port in the firewall.";
    };
    hardwareEncoders = lib.mkOption {
      type = lib.types.bool;
      default = false;
      description = "Whether the server may use the graphics cards in /dev/dri.";
    };
    settings = lib.mkOption {
      type = settings;
      default = { };
      description = "Other settings of the configuration file (see README, Configuration).";
    };
  };

  config = lib.mkIf cfg.enable {
    networking.firewall.allowedTCPPorts = lib.optional cfg.openFirewall port;

    users.users.hearthcast = {
      isSystemUser = true;
      group = "hearthcast";
    };
    users.groups.hearthcast = { };
    users.groups.media = { };

    environment.systemPackages = [ cfg.package ];

    systemd.services.hearthcast = {
      description = "Hearthcast media server";
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ];
      serviceConfig =
        unitConfig
        // {
          ExecStart = "${lib.getExe cfg.package} serve --config ${file}";
          ExecReload = "${pkgs.coreutils}/bin/kill -HUP $MAINPID";
          # Home folders are hidden, except for library folders in them.
          ProtectHome = "tmpfs";
          BindReadOnlyPaths = map toString cfg.roots;
          ReadWritePaths = recordings;
          BindPaths = recordings;
        }
        // lib.optionalAttrs cfg.hardwareEncoders gpuConfig;
    };
  };
}
