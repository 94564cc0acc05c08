import { RPC_PORT, sdk } from './sdk'

/** The image runs as the user 1000, who has to own the volume. */
const COMMAND: [string, ...string[]] = [
  '/usr/bin/apus',
  'sync',
  '--follow',
  '--server',
  '--datadir=/data',
  '--rpcbind=0.0.0.0',
  '--rpcallowip=10.0.0.0/8',
  '--rpcallowip=172.16.0.0/12',
]

export const main = sdk.setupMain(async ({ effects }) => {
  const volume = sdk.Mounts.of().mountVolume({
    volumeId: 'main',
    subpath: null,
    mountpoint: '/data',
    readonly: false,
  })
  const container = await sdk.SubContainer.of(effects, { imageId: 'apus' }, volume, 'apus')
  return sdk.Daemons.of(effects)
    .addOneshot('owner', {
      subcontainer: container,
      exec: { command: ['/usr/bin/chown', '1000:1000', '/data'], user: 'root' },
      requires: [],
    })
    .addDaemon('sync', {
      subcontainer: container,
      exec: { command: COMMAND, user: '1000', sigtermTimeout: 600_000 },
      ready: {
        display: 'RPC',
        gracePeriod: 300_000,
        fn: () =>
          sdk.healthCheck.checkPortListening(effects, RPC_PORT, {
            successMessage: 'The sync answers RPC',
            errorMessage: 'The sync does not answer RPC',
          }),
      },
      requires: ['owner'],
    })
})
