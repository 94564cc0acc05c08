import { sdk } from './sdk'

/** Settings and wallets are worth a backup; blocks and coins are made again. */
export const { createBackup, restoreInit } = sdk.setupBackups(async () =>
  sdk.Backups.ofVolumes('main').setOptions({ exclude: ['blocks/', 'chainstate/', 'indexes/', 'join/'] }),
)
