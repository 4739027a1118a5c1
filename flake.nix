{
  description = "Hearthcast: your own films, series and music on every screen, and as television";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      eachSystem =
        make: nixpkgs.lib.genAttrs systems (system: make system nixpkgs.legacyPackages.${system});

      # GStreamer finds plugins only through GST_PLUGIN_SYSTEM_PATH_1_0; it does not search the Nix store.
      plugins =
        pkgs: with pkgs.gst_all_1; [
          gstreamer
          gst-plugins-base
          gst-plugins-good
          gst-plugins-bad
          gst-plugins-ugly
          gst-libav
        ];
      pluginPath = pkgs: nixpkgs.lib.makeSearchPathOutput "lib" "lib/gstreamer-1.0" (plugins pkgs);

      package =
        pkgs:
        pkgs.rustPlatform.buildRustPackage {
          pname = "hearthcast";
          version = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).package.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          nativeBuildInputs = [
            pkgs.pkg-config
            pkgs.makeWrapper
          ];
          buildInputs = plugins pkgs;
          # The tests need a browser and their own network; scripts/test runs them.
          doCheck = false;
          postInstall = ''
            wrapProgram $out/bin/hearthcast \
              --prefix GST_PLUGIN_SYSTEM_PATH_1_0 : "${pluginPath pkgs}" \
              --prefix PATH : "${nixpkgs.lib.makeBinPath [ pkgs.ffmpeg ]}"
          '';
          meta = {
            description = "Media server that plays a library in every player, and as television";
            license = with nixpkgs.lib.licenses; [
              mit
              asl20
            ];
            mainProgram = "hearthcast";
            platforms = systems;
          };
        };
    in
    {
      packages = eachSystem (_: pkgs: rec {
        hearthcast = package pkgs;
        default = hearthcast;
      });

      apps = eachSystem (system: _: {
        default = {
          type = "app";
          program = "${self.packages.${system}.default}/bin/hearthcast";
        };
      });

      devShells = eachSystem (_: pkgs: {
        default = pkgs.mkShell {
          packages = (plugins pkgs) ++ [
            pkgs.cargo
            pkgs.cargo-deny
            pkgs.chromium
            pkgs.clippy
            pkgs.curl
            pkgs.ffmpeg
            pkgs.nginx
            pkgs.nodejs
            pkgs.pkg-config
            pkgs.rustc
            pkgs.rustfmt
            pkgs.shellcheck
          ];
          GST_PLUGIN_SYSTEM_PATH_1_0 = pluginPath pkgs;
        };
      });

      nixosModules.default =
        {
          config,
          lib,
          pkgs,
          ...
        }:
        let
          cfg = config.services.hearthcast;
          toml = pkgs.formats.toml { };
          file = toml.generate "hearthcast.toml" cfg.settings;
          port = lib.toInt (lib.last (lib.splitString ":" cfg.listen));
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
              description = "Library folders, read only.";
            };
            openFirewall = lib.mkOption {
              type = lib.types.bool;
              default = false;
              description = "Whether to open the port in the firewall.";
            };
            settings = lib.mkOption {
              type = toml.type;
              default = { };
              description = "Other settings of the configuration file (see README, Configuration).";
            };
          };

          config = lib.mkIf cfg.enable {
            networking.firewall.allowedTCPPorts = lib.optional cfg.openFirewall port;

            systemd.services.hearthcast = {
              description = "Hearthcast media server";
              wantedBy = [ "multi-user.target" ];
              wants = [ "network-online.target" ];
              after = [ "network-online.target" ];
              serviceConfig = {
                ExecStart = lib.escapeShellArgs (
                  [
                    (lib.getExe cfg.package)
                    "serve"
                    "--config"
                    "${file}"
                    "--listen"
                    cfg.listen
                  ]
                  ++ lib.concatMap (root: [
                    "--root"
                    (toString root)
                  ]) cfg.roots
                );
                DynamicUser = true;
                # State (accounts, keys) and segments. The program reads both folders from variables that systemd sets.
                StateDirectory = "hearthcast";
                StateDirectoryMode = "0700";
                CacheDirectory = "hearthcast";
                CacheDirectoryMode = "0700";
                Restart = "on-failure";
                TimeoutStopSec = 15;
                BindReadOnlyPaths = map toString cfg.roots;

                # Left out on purpose: PrivateDevices (hardware encoders live in /dev/dri) and MemoryDenyWriteExecute
                # (GStreamer's Orc compiles at run time).
                CapabilityBoundingSet = "";
                LockPersonality = true;
                NoNewPrivileges = true;
                PrivateTmp = true;
                ProtectClock = true;
                ProtectControlGroups = true;
                ProtectHome = "tmpfs";
                ProtectHostname = true;
                ProtectKernelLogs = true;
                ProtectKernelModules = true;
                ProtectKernelTunables = true;
                ProtectSystem = "strict";
                RestrictAddressFamilies = [
                  "AF_INET"
                  "AF_INET6"
                  "AF_UNIX"
                ];
                RestrictNamespaces = true;
                RestrictRealtime = true;
                RestrictSUIDSGID = true;
                SystemCallArchitectures = "native";
                # Workers confine themselves with Landlock and seccomp (@sandbox).
                SystemCallFilter = [
                  "@system-service"
                  "~@privileged"
                  "@sandbox"
                ];
                UMask = "0077";
              };
            };
          };
        };
    };
}
