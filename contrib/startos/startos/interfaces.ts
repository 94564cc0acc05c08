import { RPC_PORT, sdk } from './sdk'

export const setInterfaces = sdk.setupInterfaces(async ({ effects }) => {
  const host = sdk.MultiHost.of(effects, 'rpc')
  const origin = await host.bindPort(RPC_PORT, { protocol: 'http' })
  const rpc = sdk.createInterface(effects, {
    name: 'RPC and page',
    id: 'rpc',
    description: 'Answers bitcoin-cli, and shows the sync in a browser',
    type: 'api',
    schemeOverride: null,
    masked: false,
    username: null,
    path: '',
    query: {},
  })
  return [await origin.export([rpc])]
})
