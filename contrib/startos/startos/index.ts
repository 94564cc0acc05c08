import { buildManifest } from '@start9labs/start-sdk'
import { restoreInit } from './backups'
import { setInterfaces } from './interfaces'
import { manifest as sdkManifest } from './manifest'
import { sdk } from './sdk'
import { versionGraph } from './versions'

export { createBackup } from './backups'
export { main } from './main'
export const actions = sdk.Actions.of()
export const init = sdk.setupInit(restoreInit, versionGraph, setInterfaces, actions)
export const uninit = sdk.setupUninit(versionGraph)
export const manifest = buildManifest(versionGraph, sdkManifest)
